"""A real OTLP receiver in front of ours: rotel takes what the services export, and passes it on to be written down.

So what is checked has come through somebody else's implementation of OTLP. It knows processes and ports, not spans.
"""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import BenchError
from outrider.cli.observing import traces_file
from outrider.cli.ports import free_port
from outrider.cli.service import Service

_HOST = "127.0.0.1"
_UP_S = 20.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Collector:
    """Where it takes traces, and the file that they end in."""

    address: str
    file: Path

    @property
    def variables(self) -> dict[str, str]:
        """What a service needs to export to it."""
        return {
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{self.address}",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }


def _agent() -> Path:
    found = importlib.util.find_spec("rotel")
    if found is None or not found.submodule_search_locations:
        raise BenchError("rotel is not installed: make installs it")
    return Path(found.submodule_search_locations[0]) / "rotel-agent"


async def _listens(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


@contextlib.asynccontextmanager
async def collecting(logs: Path) -> AsyncIterator[Collector]:
    """Rotel, and our receiver behind it."""
    file, behind = traces_file(logs), f"{_HOST}:{free_port(_HOST)}"
    grpc, http = (f"{_HOST}:{free_port(_HOST)}" for _ in range(2))
    arguments = ("--listen", behind, "--file", str(file))
    receiver = Service("receiver", "outrider.receiver", behind, logs / "receiver.log", {}, arguments=arguments)
    await receiver.start({})
    await receiver.wait_ready()
    agent = await asyncio.create_subprocess_exec(
        _agent(), "start", "--otlp-grpc-endpoint", grpc, "--otlp-http-endpoint", http, "--exporter", "otlp",
        "--otlp-exporter-endpoint", f"http://{behind}", "--otlp-exporter-protocol", "grpc",
        "--pid-file", str(logs / "rotel.pid"), "--log-file", str(logs / "rotel.log"),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_UP_S):
            while not await _listens(grpc):  # noqa: ASYNC110 - another process sends no event
                await asyncio.sleep(_LOOK_S)
        yield Collector(grpc, file)
    except TimeoutError:
        raise BenchError(f"rotel does not listen; its log is {logs / 'rotel.log'}") from None
    finally:
        agent.terminate()
        await agent.wait()
        await receiver.stop()
