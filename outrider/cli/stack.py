"""Starts the services of one machine as processes, waits until they serve, and stops them.

It knows commands, variables and health checks; it does not know what the services do.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_POLL_S = 0.2
_STOP_S = 30.0
_LOG_TAIL = 15
_SPIN_COUNT = "20000"
"""GOMP_SPINCOUNT of model processes that share cores: an idle pool that spins for milliseconds after its
pass takes a core from the other model (measured: a fifth of the speed of speculation on 2 cores)."""


class StackError(RuntimeError):
    """A service did not come up, or ended by itself. The message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class StackOptions:
    """Which models, where to listen (port 0 picks free ones), where logs go, and variables to pass on: to all
    services, and to those of a role. How many of each there are.

    ``draft`` None runs without a draft service.
    """

    target: str
    draft: str | None
    logs: Path
    host: str = "127.0.0.1"
    port: int = 50051
    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    targets: int = 1
    drafts: int = 1
    orchestrators: int = 1


@dataclass(slots=True)
class Service:
    """One process and where it listens."""

    name: str
    module: str
    address: str
    log: Path
    variables: dict[str, str]
    defaults: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    process: asyncio.subprocess.Process | None = None

    def log_tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.is_file() else []
        return "\n".join(lines[-_LOG_TAIL:])

    async def start(self, environment: Mapping[str, str]) -> None:
        """Start the process in a session of its own, so that a Ctrl-C reaches it through us, in order."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self.module,
                *self.arguments,
                env={**self.defaults, **environment, **self.variables},
                stdout=log,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End the process at once, if it still runs."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    def check_alive(self) -> None:
        """Raise StackError when the process has ended."""
        if self.process is not None and self.process.returncode is not None:
            code = self.process.returncode
            raise StackError(f"the {self.name} ended with code {code}; the end of {self.log}:\n{self.log_tail()}")

    async def wait_ready(self) -> None:
        """Return when it serves. Raises StackError when it ends first."""
        while not await is_serving(self.address):
            self.check_alive()
            await asyncio.sleep(_POLL_S)

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL when it does not drain in time."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


async def is_serving(address: str) -> bool:
    """Whether the health check of the server at an address says SERVING."""
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1.0)
        except grpc.aio.AioRpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def free_port(host: str) -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _names(role: str, count: int) -> list[str]:
    return [role, *(f"{role}-{number}" for number in range(2, count + 1))][:count]


def _addresses(options: StackOptions) -> dict[str, dict[str, str]]:
    """By role and name. The first of each role has the first three ports, so that more of one move none of another."""
    counts = {
        "orchestrator": options.orchestrators,
        "target": options.targets,
        "draft": options.drafts if options.draft else 0,
    }
    names = {role: _names(role, count) for role, count in counts.items()}
    order = [*counts, *(name for each in names.values() for name in each[1:])]
    ports = [free_port(options.host) if options.port == 0 else options.port + place for place in range(len(order))]
    at = {name: f"{options.host}:{port}" for name, port in zip(order, ports, strict=True)}
    return {role: {name: at[name] for name in each} for role, each in names.items()}


def model_service(
    name: str, model: str, address: str, logs: Path, variables: Mapping[str, str], module: str = ""
) -> Service:
    """A model process, of the module that its name says unless another is named."""
    own = {**variables, "OUTRIDER_MODEL": model, "OUTRIDER_LISTEN": address}
    defaults = {"GOMP_SPINCOUNT": _SPIN_COUNT}
    return Service(name, module or f"{name}_service", address, logs / f"{name}.log", own, defaults)


def orchestrator_service(
    name: str, address: str, target: str, draft: str, tokenizer: str, logs: Path, variables: Mapping[str, str]
) -> Service:
    """An orchestrator over replicas at addresses, separated by commas; an empty one of the draft is none."""
    own = {
        **variables,
        "OUTRIDER_LISTEN": address,
        "OUTRIDER_TARGET": target,
        "OUTRIDER_DRAFT": draft,
        "OUTRIDER_TOKENIZER": tokenizer,
    }
    return Service(name, "orchestrator", address, logs / f"{name}.log", own)


def services(options: StackOptions) -> list[Service]:
    """The processes of a stack: replicas, then orchestrators, the first of them last."""
    addresses, logs = _addresses(options), options.logs
    targets, drafts = addresses["target"], addresses["draft"]
    own = {role: options.variables.get(role, {}) for role in addresses}
    models = [("target", options.target), ("draft", options.draft or "")]
    replicas = [
        model_service(name, model, address, logs, own[role], f"{role}_service")
        for role, model in models
        for name, address in addresses[role].items()
    ]
    orchestrators = [
        orchestrator_service(
            name,
            address,
            ",".join(targets.values()),
            ",".join(drafts.values()),
            options.target,
            logs,
            own["orchestrator"],
        )
        for name, address in addresses["orchestrator"].items()
    ]
    return [*replicas, *reversed(orchestrators)]


@asynccontextmanager
async def started(stack: list[Service], environment: Mapping[str, str]) -> AsyncGenerator[list[Service], None]:
    """The processes, started in order; stopped when the block ends, the last first, and killed if that is cut short."""
    try:
        for service in stack:
            await service.start(environment)
        try:
            yield stack
        finally:
            for service in reversed(stack):
                await service.stop()
    finally:
        for service in stack:
            service.kill()


@asynccontextmanager
async def running(options: StackOptions) -> AsyncGenerator[list[Service], None]:
    """The processes of a stack, clients' side stopped first."""
    async with started(services(options), {**os.environ, **options.environment}) as stack:
        yield stack
