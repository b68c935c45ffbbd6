"""Outrider: asked over gRPC like any client does, each request with a wish for its speculation."""

import os
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import BenchError, resume
from bench.systems.base import Request, Step, Timing, complete, timed
from outrider.cli.service import Service, StackError
from outrider.cli.stack import StackOptions, running
from outrider.cli.up import check_pair, wait_all
from outrider.client import Ask, Client, Delta, Drafter
from outrider.errors import OutriderError
from outrider.sampling import SamplingParams

Speculation = int | None
"""As ``Ask.draft_tokens``."""

OFF: Speculation = 0
AUTO: Speculation = None


def fixed(draft_tokens: int) -> Speculation:
    """So many draft tokens in every round."""
    return draft_tokens


def client_of(address: str) -> Client:
    """A client that tries nothing twice: what fails is to be seen."""
    return Client(address, timeout_s=None, stall_s=None, patience_s=0.0)


def _ask(request: Request, speculation: Speculation, tenant: str) -> Ask:
    return Ask(
        token_ids=request.ids,
        max_new_tokens=request.new_tokens,
        sampling=SamplingParams(temperature=request.temperature),
        seed=request.seed,
        ignore_eos=True,
        draft_tokens=speculation,
        tenant=tenant,
    )


def _step(delta: Delta) -> Step:
    done = delta.round
    if done is None:
        return Step(time.monotonic(), delta.token_ids)
    copied = done.drafter is Drafter.NGRAM
    return Step(time.monotonic(), delta.token_ids, len(done.draft_tokens), done.num_accepted, copied, done.prepared)


@dataclass(frozen=True, slots=True)
class Outrider:
    """A client of a running stack. Without ``services`` its processes are never halted. Each is a tenant of its own:
    where several ask one target the same, none finds the prompt in the cache because another was there first."""

    services: list[Service]
    client: Client
    settings: str
    name: str = "Outrider"
    most_sessions: int = 1_000
    speculation: Speculation = OFF

    @property
    def roots(self) -> list[int]:
        """The services."""
        return [service.process.pid for service in self.services if service.process is not None]

    async def answer(self, request: Request) -> Timing:
        """One ``Generate`` call; a token counts when its delta has arrived."""
        sent = time.monotonic()
        tenant = re.sub("[^A-Za-z0-9]+", "-", self.name)
        events = self.client.stream(_ask(request, self.speculation, tenant))
        try:
            steps = [_step(event) async for event in events if isinstance(event, Delta) and event.token_ids]
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
        async with client_of(services[-1].address) as client:
            system = Outrider(services, client, settings)
            try:
                yield system
            finally:
                resume(system.roots)  # a halted service would not hear that it has to stop
