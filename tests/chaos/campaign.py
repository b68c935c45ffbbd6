"""The whole thing: the quiet system, faults in the middle of answers, and the audit.

Faults and requests go hand in hand, so that each fault meets answers in their middle however fast the machine is.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.audit import audit
from tests.chaos.cases import make_cases, make_jobs
from tests.chaos.faults import fault_of
from tests.chaos.load import Load, clients_of, references
from tests.chaos.schedule import PROCESSES, Planned, schedule
from tests.chaos.system import System, running
from tests.chaos.verdicts import Outcome

_CLIENTS = 8
_AHEAD = 2
"""Faults' worth of requests that may be asked for before the fault that they are meant for."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Happened:
    """A fault, the seconds of the run in which its place was not well, and the answers that it met in their middle."""

    planned: Planned
    began_s: float
    ended_s: float
    met: int


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is known at the end. ``left``: what did not come back to its base; ``bad_exits``: processes that were
    asked to stop and did not do it well."""

    faults: tuple[Happened, ...]
    outcomes: tuple[Outcome, ...]
    left: Mapping[str, int]
    bad_exits: tuple[str, ...]


@dataclass(slots=True)
class _Faults:
    """Owner of the faults of a run. Within a group they come one after another."""

    system: System
    load: Load
    say: Say
    happened: list[Happened] = field(default_factory=list)
    _groups: dict[str, asyncio.Lock] = field(default_factory=dict)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    async def run(self, plan: tuple[Planned, ...], requests: int) -> None:
        """All of them, each with its share of the requests."""
        each = requests / max(1, len(plan))
        for planned in plan:
            lock = self._groups.setdefault(planned.place.group, asyncio.Lock())
            await lock.acquire()
            await asyncio.sleep(planned.pause_s)
            self.load.release(math.ceil((planned.number + _AHEAD) * each))
            await self.load.under_way()
            self._tasks.append(asyncio.create_task(self._one(planned, lock)))
        await asyncio.gather(*self._tasks)

    async def _one(self, planned: Planned, lock: asyncio.Lock) -> None:
        began_s, met = self.load.now_s, self.load.in_middle
        self.say(f"{began_s:7.1f} s  {planned}; {met} answers in their middle")
        try:
            fault = fault_of(planned)
            await fault.inject(self.system)
            await asyncio.sleep(planned.hold_s)
            await fault.mend(self.system)
            if planned.place.role in ("target", "orchestrator"):
                await self.system.well(planned.place.role)
        finally:
            self.happened.append(Happened(planned, began_s, self.load.now_s, met))
            lock.release()


async def campaign(seed: int, requests: int, faults: int, folder: Path, say: Say) -> Findings:
    """Raises AssertionError when the system cannot be brought up, or a place does not get well again."""
    async with contextlib.AsyncExitStack() as stack:
        system = await stack.enter_async_context(running(folder / "models", folder, PROCESSES))
        clients = [await stack.enter_async_context(client) for client in clients_of(system.addresses, _CLIENTS)]
        cases = make_cases(seed)
        say(f"the quiet system answers {len(cases)} conversations without speculation")
        load = Load(clients, make_jobs(seed, cases, requests), await references(clients[0], cases))
        injected = _Faults(system, load, say)
        await injected.run(schedule(seed, faults), requests)
        load.release(requests)
        await load.finish()
        say(f"{load.now_s:7.1f} s  all requests have ended; waiting for everything to be back at its base")
        left = await audit(system)
        exits = tuple(exit_ for box in system.boxes.values() for exit_ in box.bad_exits)
        return Findings(tuple(injected.happened), tuple(load.outcomes), left, exits)
