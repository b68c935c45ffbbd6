"""Outrider stacks of a benchmark's own shape: one target, several drafts, several orchestrators over the same replicas.

Each orchestrator learns from its own answers only. It does not know what is measured.
"""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.processes import BenchError, resume
from bench.systems.outrider import Outrider, Speculation, client_of
from outrider.cli.ports import free_port
from outrider.cli.service import Service, StackError
from outrider.cli.stack import model_service, orchestrator_service, started
from outrider.cli.up import check_pair, wait_all
from outrider.client import Client

_HOST = "127.0.0.1"


def _address() -> str:
    return f"{_HOST}:{free_port(_HOST)}"


def replica(name: str, model: str, logs: Path, variables: Mapping[str, str], module: str = "draft_service") -> Service:
    """A model process that is not started yet, at a free address."""
    return model_service(name, model, _address(), logs, variables, module)


@dataclass(frozen=True, slots=True)
class Seat:
    """An orchestrator to be: over which draft (none when empty), and with which settings."""

    name: str
    draft: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Site:
    """Running orchestrators by name, each with a client, and all processes."""

    services: Sequence[Service]
    clients: Mapping[str, Client]
    settings: str

    def system(self, name: str, seat: str, speculation: Speculation, halts: bool = False) -> Outrider:
        """A way to ask an orchestrator. ``halts``: peers are measured too, for which the processes must stand still."""
        return Outrider(
            list(self.services) if halts else [], self.clients[seat], self.settings, name, speculation=speculation
        )


@asynccontextmanager
async def serving(services: Sequence[Service]) -> AsyncGenerator[Sequence[Service], None]:
    """The services, started and ready. Raises BenchError when one does not come up."""
    async with started(list(services), os.environ):
        try:
            await wait_all(services)
        except StackError as error:
            raise BenchError(f"Outrider: {error}") from error
        try:
            yield services
        finally:  # a halted service would not hear that it has to stop
            resume([service.process.pid for service in services if service.process is not None])


@asynccontextmanager
async def site(
    target: str, tokenizer: str, seats: Sequence[Seat], logs: Path, settings: str, replicas: Sequence[Service] = ()
) -> AsyncGenerator[Site, None]:
    """Orchestrators over a target at an address, ready to answer. ``replicas`` are what else runs for them.

    Raises BenchError when one does not come up or refuses its draft.
    """
    stack = [
        orchestrator_service(seat.name, _address(), target, seat.draft, tokenizer, logs, seat.variables)
        for seat in seats
    ]
    async with serving(stack), AsyncExitStack() as clients:
        found = {}
        for seat, service in zip(seats, stack, strict=True):
            await _paired(service, bool(seat.draft))
            found[seat.name] = await clients.enter_async_context(client_of(service.address))
        yield Site([*replicas, *stack], found, settings)


async def _paired(service: Service, with_draft: bool) -> None:
    try:
        await check_pair(service.address, with_draft)
    except StackError as error:
        raise BenchError(f"{service.name}: {error}") from error
