"""A Prometheus that is given recordings as its past and answers queries about them: real code, no scraping.

It knows how to write samples and to ask over HTTP, not what the queries mean.
"""

import contextlib
import json
import math
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.autoscaling_recorded import INTERVAL_S, Recording
from tests.integration.processes import free_address

START_S = 1_767_225_600
"""When recordings begin, in Unix time: any moment of the past, at a full hour."""
Values = tuple[float | None, ...]
"""Of each step of a recording."""


def _lines(recording: Recording) -> Iterator[str]:
    """Samples in the OpenMetrics format, in a namespace named after the recording."""
    for name, values in recording.series.items():
        own = re.sub(r'namespace="\w+"', f'namespace="{recording.name}"', name)
        for step, value in enumerate(values):
            if value is not None:
                yield f"{own} {value!r} {START_S + step * INTERVAL_S}"


def _fill(folder: Path, recordings: Sequence[Recording]) -> None:
    text = folder / "samples.txt"
    text.write_text("\n".join([*(line for recording in recordings for line in _lines(recording)), "# EOF\n"]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that serves at an address."""

    address: str

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as response:
            return response.read()

    def ready(self) -> bool:
        """Whether it answers."""
        with contextlib.suppress(OSError):
            self._get("/-/ready")
            return True
        return False

    def values(self, query: str, length_s: int) -> dict[str, Values]:
        """Results of a query at each step of so many seconds, by namespace. Raises KeyError for other labels."""
        last = START_S + length_s - INTERVAL_S
        asked = urllib.parse.urlencode({"query": query, "start": START_S, "end": last, "step": INTERVAL_S})
        found = json.loads(self._get(f"/api/v1/query_range?{asked}"))["data"]["result"]
        steps = range(START_S, last + 1, INTERVAL_S)
        return {each["metric"]["namespace"]: _at(each["values"], steps) for each in found}


def _at(pairs: Sequence[tuple[float, str]], steps: Sequence[int]) -> Values:
    known: Mapping[int, float] = {int(when): float(text) for when, text in pairs}
    assert not any(map(math.isnan, known.values())), "NaN is no number to scale by"
    return tuple(known.get(step) for step in steps)


@contextlib.contextmanager
def prometheus(folder: Path, recordings: Sequence[Recording]) -> Iterator[Prometheus]:
    """One that remembers the recordings, and is gone at the end."""
    assert shutil.which("prometheus"), "prometheus is missing; on Debian: apt-get install prometheus"
    _fill(folder, recordings)
    (folder / "prometheus.yaml").write_text("{}")
    server = Prometheus(free_address())
    command = [
        "prometheus", f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y", f"--web.listen-address={server.address}", "--log.level=error",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not server.ready():
            assert process.poll() is None and time.monotonic() < end, "prometheus does not start"
            time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()
