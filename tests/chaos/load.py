"""The load: jobs that are asked for as they are released, and what became of every request.

It does not know faults: whoever injects them releases the requests that meet them.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.client import Ask, Client
from outrider.errors import OutriderError
from tests.chaos.cases import Case, Job
from tests.chaos.verdicts import Expected, Fate, Outcome, expected, judge, judge_error
from tests.waiting import eventually

DEADLINE_S = 60.0
"""Of a request, whatever happens meanwhile."""
_GRACE_S = 5.0
_STALL_S = 2.0
_UNDER_WAY_S = 3.0


def clients_of(addresses: Sequence[str], count: int) -> list[Client]:
    """Clients that know all orchestrators."""
    return [Client(*addresses, timeout_s=DEADLINE_S, stall_s=_STALL_S, patience_s=DEADLINE_S) for _ in range(count)]


async def references(client: Client, cases: Sequence[Case]) -> dict[tuple[int, int], Expected]:
    """The answers of the target alone, by case and turn."""
    found: dict[tuple[int, int], Expected] = {}

    async def converse(case: Case) -> None:
        session_id = ""
        for number, turn in enumerate(case.turns):
            answer = await client.answer(turn.ask(0, session_id, number < len(case.turns) - 1))
            found[case.number, number] = expected(answer)
            session_id = answer.session_id

    for case in cases:
        await converse(case)
    return found


@dataclass(slots=True)
class Load:
    """Owner of the requests. Each client asks for one thing at a time."""

    clients: list[Client]
    jobs: Sequence[Job]
    references: dict[tuple[int, int], Expected]
    outcomes: list[Outcome] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _released: int = 0
    _in_middle: set[int] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _free: "asyncio.Queue[Client]" = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        for client in self.clients:
            self._free.put_nowait(client)

    @property
    def now_s(self) -> float:
        """Seconds of the run."""
        return time.monotonic() - self._began

    @property
    def in_middle(self) -> int:
        """Answers of which something has come, and not all."""
        return len(self._in_middle)

    def release(self, requests: int) -> None:
        """Let all jobs be asked for that begin below this number of requests."""
        while self._released < len(self.jobs) and self.jobs[self._released].first < requests:
            task = asyncio.create_task(self._run(self.jobs[self._released]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._released += 1

    async def under_way(self) -> None:
        """Wait until an answer is in its middle; not for ever, because what was broken before may still be."""
        with contextlib.suppress(AssertionError):
            await eventually(lambda: self._in_middle, "an answer is in its middle", _UNDER_WAY_S)

    async def finish(self) -> None:
        """Wait until all that was released has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, job: Job) -> None:
        client = await self._free.get()
        session_id = ""
        try:
            for number, turn in enumerate(job.case.turns):
                ask = turn.ask(job.draft_tokens, session_id, number < len(job.case.turns) - 1)
                outcome = await self._ask(client, job, number, ask)
                self.outcomes.append(outcome)
                session_id = outcome.session_id
                if outcome.fate is not Fate.ANSWERED:
                    self._give_up(job, number + 1)
                    return
        finally:
            self._free.put_nowait(client)

    def _give_up(self, job: Job, turn: int) -> None:
        """Without the turn before it a turn cannot be asked for."""
        for number in range(turn, len(job.case.turns)):
            detail = "the turn before it was not answered"
            self.outcomes.append(
                Outcome(job.first + number, job.case.number, number, job.draft_tokens, Fate.REFUSED, detail)
            )

    async def _ask(self, client: Client, job: Job, number: int, ask: Ask) -> Outcome:
        began_s, losses, session_id = self.now_s, 0, ""
        request = job.first + number
        try:
            whole = client.answer(ask, lambda delta: self._in_middle.add(request))
            answer = await asyncio.wait_for(whole, DEADLINE_S + _GRACE_S)
            fate, detail = judge(self.references[job.case.number, number], answer)
            losses, session_id = answer.finished.losses, answer.session_id
        except OutriderError as error:
            fate, detail = judge_error(error)
        except TimeoutError:
            fate, detail = Fate.HUNG, f"no end within {DEADLINE_S + _GRACE_S:g} s"
        finally:
            self._in_middle.discard(request)
        facts = (request, job.case.number, number, job.draft_tokens, fate, detail)
        return Outcome(*facts, began_s, self.now_s, losses, session_id)
