"""``python -m deploy.image_offline``: builds the orchestrator's image, lets it serve, and prints one RESULT line.

A synthetic target, which runs outside of the image, gives it something to orchestrate. All is done below
build/image-offline; only the base system stays there, for the next time.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.image_offline.host import OfflineError, check_machine, paths, pip_file, pip_here
from deploy.image_offline.images import Storage, make_base, tree_bytes
from deploy.image_offline.inside import DATA, Inside, network
from tests.tiny import save_tokenizer

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "image-offline"
BASE, IMAGE = "localhost/outrider-base", "localhost/outrider-orchestrator"
_SETTINGS = {"OUTRIDER_TOKENIZER": DATA, "OUTRIDER_TARGET": "127.0.0.1:50052"}
_TARGET = {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_LISTEN": "127.0.0.1:50052", "OUTRIDER_SYNTHETIC_PASS_MS": "5"}
_PATIENCE_S = 60.0


def _built(storage: Storage) -> None:
    base = FOLDER / "base.tar"
    if not base.exists():
        print("making a base system with debootstrap", flush=True)
        make_base(base)
    print("building", flush=True)
    storage.load_base(base, BASE)
    settings = pip_here()
    configured = FOLDER / "pip.conf"
    configured.write_text(pip_file(settings))
    seen = [f"{path}:{path}:ro" for path in paths(settings.values())]
    storage.build(ROOT, "orchestrator", IMAGE, {"BASE": BASE}, [f"{configured}:/etc/pip.conf:ro", *seen])


@contextmanager
def _running(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process until SIGTERM; whoever needs its exit code ends it before."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(_PATIENCE_S)


def _wait(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """Whether a condition comes true while a process lives."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if condition():
            return True
        time.sleep(0.2)
    return False


def _uid(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


def _served(inside: Inside, data: Path) -> dict[str, Any]:
    """What is seen of the image while it serves."""
    here = {**os.environ, **_TARGET, "OUTRIDER_MODEL": str(data)}
    target = ["ip", "netns", "exec", inside.network, sys.executable, "-m", "target_service"]
    with _running(target, FOLDER / "target.log", here), _running(inside.entry(), FOLDER / "log", here) as process:
        healthy = _wait(inside.is_healthy, process)
        answer = inside.says("outrider", "generate", "--json", "--max-new-tokens", "8", "the quick brown fox")
        uid = _uid(process.pid)
        process.terminate()
        return {"uid": uid, "healthy": healthy, "answered": bool(answer), "exit_code": process.wait(_PATIENCE_S)}


def _looked_at(inside: Inside) -> dict[str, Any]:
    """What is seen of the image without serving."""
    find = "from importlib.util import find_spec; print(find_spec('torch') is None)"
    write = "import pathlib; pathlib.Path('/tmp/a').touch(); pathlib.Path('/opt/outrider/a').touch()"
    denied = f"try:\n exec({write!r})\nexcept OSError as error:\n print(error.strerror)"
    return {
        "torch_absent": inside.says("python", "-c", find) == "True",
        "read_only": inside.says("python", "-c", denied) == "Read-only file system",
    }


def _result() -> dict[str, Any]:
    check_machine()
    FOLDER.mkdir(parents=True, exist_ok=True)
    storage, data = Storage(FOLDER), FOLDER / "data"
    storage.clear()
    save_tokenizer(data)
    try:
        _built(storage)
        root, base = storage.mounted(IMAGE), storage.mounted(BASE)
        sizes = {"image_mb": tree_bytes(root), "base_mb": tree_bytes(base), "compressed_mb": 0}
        sizes["compressed_mb"] = storage.compressed_bytes(IMAGE)
        print("running", flush=True)
        with network(f"outrider-{os.getpid()}") as name:
            inside = Inside(root, storage.config(IMAGE), data, name, _SETTINGS)
            seen = {**_looked_at(inside), **_served(inside, data)}
    finally:
        storage.clear()
    return {**{size: round(number / 1e6, 1) for size, number in sizes.items()}, **seen}


def main() -> int:
    """Exit code: 0 when everything holds, 1 when something does not, 2 when the machine cannot do it."""
    try:
        result = _result()
    except OfflineError as error:
        print(f"image-offline: {error}", file=sys.stderr)
        return 2
    print(f"RESULT {json.dumps(result)}")
    expected = {
        "uid": 65532,
        "exit_code": 0,
        **dict.fromkeys(("torch_absent", "read_only", "healthy", "answered"), True),
    }
    return int(any(result[name] != value for name, value in expected.items()))


if __name__ == "__main__":
    sys.exit(main())
