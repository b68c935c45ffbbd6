"""The services as an operator starts them: ``python -m`` with variables, stopped by SIGTERM."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.waiting import eventually

READY_S = 90.0
"""A process imports torch before it can serve; on a busy machine that takes a while."""
_SHOWN = 6_000
"""Characters of a service's log that are shown when a test fails."""


def free_address() -> str:
    """An address that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without settings of Outrider or tracing, and the given variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OUTRIDER_", "OTEL_"))}
    return {**kept, **variables}


@dataclass(slots=True)
class Service:
    """One process and what it said."""

    module: str
    address: str
    process: asyncio.subprocess.Process
    log: IO[bytes]

    @property
    def said(self) -> str:
        """Its log so far."""
        number = self.log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode()

    async def ended(self, within_s: float = READY_S) -> tuple[int, str]:
        """Exit code and log, once it has ended."""
        async with asyncio.timeout(within_s):
            code = await self.process.wait()
        return code, self.said

    async def terminate(self) -> None:
        """What Kubernetes does first."""
        self.process.send_signal(signal.SIGTERM)

    async def health(self, within_s: float = 5.0) -> str:
        """SERVING, NOT_SERVING, or the code of the call."""
        async with grpc.aio.insecure_channel(self.address) as channel:
            return await health(channel, within_s)


async def health(channel: grpc.aio.Channel, within_s: float = 5.0, service: str = "") -> str:
    """What a health check says, or the code that it failed with."""
    try:
        stub = health_pb2_grpc.HealthStub(channel)
        response = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=within_s)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


async def spawn(
    module: str, variables: Mapping[str, str], log: IO[bytes] | None = None, arguments: Sequence[str] = ()
) -> Service:
    """Start a service; it may not serve yet. Its log is in a file: of a pipe that nobody reads, it would hang."""
    log = log or tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as long as the service
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        env=environment(variables),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=log,
    )
    return Service(module, variables.get("OUTRIDER_LISTEN", ""), process, log)


@contextlib.asynccontextmanager
async def running(module: str, variables: Mapping[str, str]) -> AsyncIterator[Service]:
    """A service on a free port; killed at the end if it still runs. What it said is shown when a test fails."""
    service = await spawn(module, {"OUTRIDER_LISTEN": free_address()} | dict(variables))
    try:
        yield service
    except BaseException:
        print(f"--- {module} at {service.address}\n{service.said[-_SHOWN:]}", file=sys.stderr)
        raise
    finally:
        if service.process.returncode is None:
            service.process.kill()
            await service.process.wait()


async def serves(service: Service, wanted: str = "SERVING") -> None:
    """Wait until its health says so. Raises AssertionError when the process ends instead."""
    seen = ""

    async def watch() -> None:
        nonlocal seen
        async with grpc.aio.insecure_channel(
            service.address, options=[("grpc.max_reconnect_backoff_ms", 200)]
        ) as channel:
            while seen != wanted:
                seen = await health(channel)
                await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    try:
        await eventually(lambda: watching.done() or service.process.returncode is not None, "it serves", READY_S)
        assert seen == wanted, f"{service.module} ended with {service.process.returncode}"
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
