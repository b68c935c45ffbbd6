"""Outrider: asked over gRPC like any client does, each request with a wish for its speculation."""

import os
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.processes import BenchError, resume
from bench.systems.base import Request, Step, Timing, complete, timed
from outrider.cli.client import Client, connect
from outrider.cli.stack import Service, StackError, StackOptions, running
from outrider.cli.up import check_pair, wait_all
from outrider.errors import OutriderError
from outrider.v1 import common_pb2
from outrider.v1 import orchestrator_pb2 as pb

OFF = pb.Speculation(mode=pb.SPECULATION_MODE_OFF)
AUTO = pb.Speculation(mode=pb.SPECULATION_MODE_AUTO)


def fixed(draft_tokens: int) -> pb.Speculation:
    """So many draft tokens in every round."""
    return pb.Speculation(mode=pb.SPECULATION_MODE_FIXED, draft_tokens=draft_tokens)


def _message(request: Request, speculation: pb.Speculation, tenant: str) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        token_ids=pb.TokenIds(ids=request.ids),
        max_new_tokens=request.new_tokens,
        sampling=common_pb2.SamplingParams(temperature=request.temperature, seed=request.seed),
        ignore_eos=True,
        speculation=speculation,
        tenant=tenant,
    )


def _step(delta: pb.Delta) -> Step:
    stats = delta.round
    return Step(
        time.monotonic(),
        tuple(delta.token_ids),
        len(stats.draft_tokens),
        stats.num_accepted,
        stats.drafter == pb.DRAFTER_NGRAM,
        stats.prepared,
    )


@dataclass(frozen=True, slots=True)
class Outrider:
    """A client of a running stack. Without ``services`` its processes are never halted. Each is a tenant of its own:
    where several ask one target the same, none finds the prompt in the cache because another was there first."""

    services: list[Service]
    client: Client
    settings: str
    name: str = "Outrider"
    most_sessions: int = 1_000
    speculation: pb.Speculation = field(default_factory=lambda: OFF)

    @property
    def roots(self) -> list[int]:
        """The services."""
        return [service.process.pid for service in self.services if service.process is not None]

    async def answer(self, request: Request) -> Timing:
        """One ``Generate`` call; a token counts when its delta has arrived."""
        sent = time.monotonic()
        tenant = re.sub("[^A-Za-z0-9]+", "-", self.name)
        events = self.client.generate_raw(_message(request, self.speculation, tenant))
        try:
            steps = [_step(event.delta) async for event in events if event.delta.token_ids]
        except OutriderError as error:
            raise BenchError(f"{self.name}: {error}") from error
        return complete(self.name, request, timed(sent, steps))


@asynccontextmanager
async def outrider(model: str, logs: Path, kv_gib: int) -> AsyncGenerator[Outrider, None]:
    """The stack without a draft, ready to answer. Raises BenchError when it does not come up.

    It builds its compiled pass before it serves: built in the background it would work between the windows.
    """
    variables = {"OUTRIDER_KV_BYTES": f"{kv_gib}GiB", "OUTRIDER_COMPILE": os.environ.get("OUTRIDER_COMPILE", "on")}
    settings = f"orchestrator and target over gRPC, {', '.join(f'{key}={value}' for key, value in variables.items())}"
    own = sorted(name for name in os.environ if name.startswith("OUTRIDER_") and name not in variables)
    if own:
        settings += f"; set by the caller: {', '.join(own)}"
    options = StackOptions(model, None, logs, port=0, environment=variables)
    async with running(options) as services:
        try:
            await wait_all(services)
            await check_pair(services[-1].address, with_draft=False)
        except StackError as error:
            raise BenchError(f"Outrider: {error}") from error
        async with connect(services[-1].address) as client:
            system = Outrider(services, client, settings)
            try:
                yield system
            finally:
                resume(system.roots)  # a halted service would not hear that it has to stop
