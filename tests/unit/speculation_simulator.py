"""A small discrete simulation of answers on one draft and one target, to try controllers on: passes that hold the rows
of all who wait, round trips, prompts, runs of plain rounds, looking ahead. Seeded: token by token all controllers meet
the same luck, so that their times can be compared.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol

from orchestrator.plans import Drafter, Observation, Plan, Preparation, Situation

Seconds = Callable[[int], float]
Process = Generator["Signal", Any, None]
_STAGGER = 0.0137
"""Seconds between the beginnings of answers, so that they do not march in step."""


class Decides(Protocol):
    """What the simulation needs of a controller."""

    def decide(self, situation: Situation) -> Plan: ...

    def break_off(self, situation: Situation) -> Plan | None: ...

    def observe(self, seen: Observation) -> None: ...


@dataclass(frozen=True)
class Fixed:
    """Blocks of k, or runs of the target alone."""

    k: int

    def decide(self, situation: Situation) -> Plan:
        k = min(self.k, situation.remaining - 1)
        return Plan(Drafter.MODEL, k) if k else Plan(run=min(15, situation.remaining - 1))

    def break_off(self, situation: Situation) -> Plan | None:
        return None

    def observe(self, seen: Observation) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class World:
    """Costs in seconds. ``chance`` and ``draft_s`` may follow the position in the answer and the time."""

    chance: Callable[[int, int], float]
    """(session, position) to the chance that the draft's token is the target's."""
    draft_s: Callable[[int, float], float]
    """(rows, time) to seconds."""
    target_s: Seconds
    rtt_draft_s: float = 0.0
    rtt_target_s: float = 0.0
    sessions: int = 1
    tokens: int = 400
    prompt: int = 30
    noise: float = 0.0
    """Spread of the logarithm of a pass's time."""
    shared_cores: float = 0.0
    """Part by which a pass takes longer that begins while the other model runs."""
    second: float = 0.5
    """Chance that the draft's next best is the target's where its best is not, and so on."""
    look_ahead: bool = True
    max_draft_tokens: int = 16
    copies: Callable[[int], tuple[int, int, float]] = lambda position: (0, 0, 0.0)
    """Position to what the n-gram drafter offers: tokens, length of the match, chance of each."""


class Signal:
    """Something that happens once."""

    def __init__(self) -> None:
        self.fired = False
        self.value: Any = None
        self._waiting: list[Callable[[Any], None]] = []

    def then(self, call: Callable[[Any], None]) -> None:
        if self.fired:
            call(self.value)
        else:
            self._waiting.append(call)

    def fire(self, value: Any = None) -> None:
        self.fired, self.value = True, value
        for call in self._waiting:
            call(value)


class Time:
    """The simulated clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), call))

    def sleep(self, seconds: float) -> Signal:
        signal = Signal()
        self.after(seconds, signal.fire)
        return signal

    def spawn(self, process: Process) -> None:
        def step(value: Any = None) -> None:
            try:
                signal = process.send(value)
            except StopIteration:
                return
            signal.then(step)

        step()

    def run(self) -> None:
        while self._due:
            self.now, _, call = heapq.heappop(self._due)
            call()


@dataclass
class Job:
    """Work of one session at a replica: the rows of each pass still to run."""

    rows: list[int]
    done: list[Signal]
    """One for each pass."""
    asked: float
    started: float = -1.0
    forward: float = 0.0
    cancelled: bool = False


@dataclass(frozen=True)
class Timing:
    """What a replica says of a pass."""

    forward: float
    queue: float
    rows: int


class Replica:
    """Runs one pass at a time over all who wait."""

    def __init__(self, time: Time, seconds: Callable[[int, float], float], world: World, luck: random.Random) -> None:
        self.other: Replica | None = None
        self.gather_s = 0.0
        """How long it waits after a pass for the sessions that were answered by it."""
        self.busy = False
        self._missing = 0
        self._passes = 0
        self._time, self._seconds, self._world, self._luck = time, seconds, world, luck
        self._waiting: list[Job] = []

    def ask(self, rows: list[int]) -> Job:
        job = Job(rows, [Signal() for _ in rows], self._time.now)
        self._waiting.append(job)
        if self._missing == 1 or not self.busy:
            self.busy = True
            self._soon(0.0)
        self._missing = max(0, self._missing - 1)
        return job

    def _soon(self, seconds: float) -> None:
        self._passes += 1
        number = self._passes
        self._time.after(seconds, lambda: self._start() if number == self._passes else None)

    def _start(self) -> None:
        jobs = [job for job in self._waiting if not job.cancelled]
        self._waiting, self._missing = [], 0
        if not jobs:
            self.busy = False
            return
        rows = sum(job.rows[0] for job in jobs)
        seconds = self._seconds(rows, self._time.now) * self._luck.lognormvariate(0.0, self._world.noise)
        if self.other is not None and self.other.busy:
            seconds *= 1 + self._world.shared_cores
        for job in jobs:
            if job.started < 0:
                job.started = self._time.now
        self._time.after(seconds, lambda: self._finish(jobs, seconds, rows))

    def _finish(self, jobs: list[Job], seconds: float, rows: int) -> None:
        for job in jobs:
            job.forward += seconds
            job.rows.pop(0)
            timing = Timing(job.forward, job.started - job.asked, rows)
            if job.rows:
                self._waiting.append(job)
            job.done.pop(0).fire(timing)
        self._missing = sum(not job.rows for job in jobs) if 2 * self.gather_s < seconds else 0
        self._soon(self.gather_s if self._missing else 0.0)


@dataclass
class LookAhead:
    """A request to look ahead, whether its answer has come, and whether it has the outcome."""

    count: int
    plan: Plan
    since: float
    accepted: int = 0
    told: bool = False
    took: float | None = None
    job: Job | None = None
    here: Signal = field(default_factory=lambda: Signal())
    right: bool = False

    def tell(self) -> Preparation:
        """What became of it."""
        self.told, came = True, self.took is not None
        plan, right = self.plan, came and self.right
        return Preparation(self.count, plan.fanout, plan.covered, self.accepted, right, self.took)

    def adopted(self, k: int) -> int:
        """Tokens of a block of k that need not be computed again when it is asked for now."""
        chosen = self.count - len(self.job.rows) if self.job is not None and self.right else 0
        return max(0, min(chosen, k - 1))


@dataclass
class Outcome:
    """What a simulation showed."""

    times: list[list[float]] = field(default_factory=list)
    """When each token of each session came."""
    plans: list[Plan] = field(default_factory=list)

    def rate(self, skip: int = 0) -> float:
        """Tokens per second of all sessions together, without the first ``skip`` tokens of each."""
        return sum((len(times) - 1 - skip) / (times[-1] - times[skip]) for times in self.times)

    def switches(self) -> int:
        """Changes of what is done, probes left out."""
        kept = [(plan.drafter, plan.draft_tokens, plan.look_ahead) for plan in self.plans if not plan.probe]
        return sum(one != other for one, other in itertools.pairwise(kept))


@dataclass
class Block:
    """Draft tokens of a round by its plan, and what getting them took. ``waited`` is the look-ahead before."""

    plan: Plan
    k: int
    began: float
    waited: LookAhead | None
    sent: float = 0.0
    passes: int = 0
    timing: Timing | None = None


class Session:
    """One answer: its luck, what its replicas have read, and what the draft prepares for it."""

    def __init__(self, simulation: "Simulation", index: int, controller: Decides, seed: int) -> None:
        self._simulation, self._controller, self._index = simulation, controller, index
        self._world, self._time = simulation.world, simulation.time
        self._times: list[float] = []
        simulation.outcome.times.append(self._times)
        luck = random.Random(seed)
        self._right = [luck.random() for _ in range(self._world.tokens + self._world.max_draft_tokens + 2)]
        self._next_best = [luck.random() for _ in self._right]
        self._repeats = [luck.random() for _ in self._right]
        self._behind = self._unread = self._world.prompt
        self._prepared = 0
        self._looking: LookAhead | None = None
        self._last = 0.0

    def live(self, begin: float) -> Process:
        yield self._time.sleep(begin)
        breaking: Plan | None = None
        while len(self._times) < self._world.tokens:
            plan = breaking or self._controller.decide(self._situation())
            self._simulation.outcome.plans.append(plan)
            block = yield from self._block(plan)
            self._look_ahead(block)
            breaking = yield from self._rounds(block)
        self._simulation.active -= 1

    def _situation(self) -> Situation:
        offered, match, _ = self._world.copies(len(self._times))
        return Situation(
            remaining=self._world.tokens - len(self._times),
            draft_available=True,
            max_draft_tokens=self._world.max_draft_tokens,
            sessions=self._simulation.active,
            draft_behind=self._behind,
            ngram_tokens=offered,
            ngram_match=match,
            prepared=self._prepared,
            look_ahead_available=self._world.look_ahead,
        )

    def _block(self, plan: Plan) -> Generator[Signal, Any, Block]:
        """The draft tokens of a round: at once what is prepared or copied, else from the draft."""
        looking, self._looking = self._looking, None
        block = Block(plan, plan.draft_tokens, self._time.now, looking)
        if plan.drafter is Drafter.MODEL and not self._prepared:
            yield self._time.sleep(self._world.rtt_draft_s / 2)
            if looking is not None and looking.right and looking.job is not None and not looking.job.rows:
                yield looking.here
                block.k = min(block.k, looking.count)
            else:
                yield from self._propose(block, looking)
            self._behind = 1
        block.sent = self._time.now
        return block

    def _propose(self, block: Block, looking: LookAhead | None) -> Process:
        """Ask the draft, which stops looking ahead and goes on from the branch that came true."""
        rows = [self._behind] + [1] * (block.k - 1)
        if looking is not None and looking.job is not None:
            rows = rows[looking.adopted(block.k) :]
            looking.job.cancelled = True
        job, block.passes = self._simulation.draft.ask(rows), len(rows)
        for signal in list(job.done):
            block.timing = yield signal
        yield self._time.sleep(self._world.rtt_draft_s / 2)

    def _look_ahead(self, block: Block) -> None:
        """Have the draft look ahead where that is planned."""
        if block.plan.look_ahead:
            outcomes = sum(block.plan.fanout)
            self._looking = LookAhead(block.k, block.plan, self._time.now)
            self._time.spawn(self._prepare(self._looking, [1] + [outcomes] * block.k))

    def _prepare(self, looking: LookAhead, rows: list[int]) -> Process:
        """Ask the draft to look ahead; nobody waits for what it says."""
        yield self._time.sleep(self._world.rtt_draft_s / 2)
        looking.job = self._simulation.draft.ask(rows)
        yield looking.job.done[-1]
        yield self._time.sleep(self._world.rtt_draft_s / 2)
        looking.took = self._time.now - looking.since
        looking.here.fire()

    def _rounds(self, block: Block) -> Generator[Signal, Any, Plan | None]:
        """The verdict on a block, and those of a run; the plan that the rest of it gives way to, if any. The pass that
        is computed meanwhile has to end first."""
        yield self._time.sleep(self._world.rtt_target_s / 2)
        ask, sent = self._simulation.target.ask([self._unread + block.k] + [1] * block.plan.run), block.sent
        self._unread = 1
        passes = list(ask.done)
        for number, signal in enumerate(passes):
            before = ask.forward
            timing = yield signal
            if number == 0:
                yield self._time.sleep(self._world.rtt_target_s / 2)
            queue = timing.queue if number == 0 else 0.0
            self._judge(block, Timing(timing.forward - before, queue, timing.rows), sent, number > 0)
            sent = self._last = self._time.now
            breaking = self._controller.break_off(self._situation()) if number < len(passes) - 1 else None
            if breaking is not None:
                ask.cancelled = True
                return breaking
        return None

    def _judge(self, block: Block, took: Timing, sent: float, follows: bool) -> None:
        """Commit what a verdict gives, and tell the controller."""
        plan, place = block.plan, len(self._times)
        accepted = self._accepted(plan, block.k, place)
        emitted = min(accepted + 1, self._world.tokens - place)
        self._times.extend([self._time.now] * emitted)
        hit = self._look_up(plan, accepted, place + accepted)
        self._prepared = block.k if hit else 0
        self._behind = 1 if plan.drafter is Drafter.MODEL else self._behind + accepted + 1
        drafted = block.timing or Timing(0.0, 0.0, 0)
        self._controller.observe(
            Observation(
                plan=plan,
                proposed=block.k,
                accepted=accepted,
                emitted=emitted,
                propose_s=block.sent - block.began if block.k and plan.drafter is Drafter.MODEL else 0.0,
                verify_s=self._time.now - sent,
                cycle_s=self._time.now - self._last if self._last else 0.0,
                follows=follows,
                hit=hit,
                preparation=self._preparation(self._looking, block.waited),
                draft_forward_s=drafted.forward,
                draft_queue_s=drafted.queue,
                draft_passes=block.passes,
                draft_batch_rows=drafted.rows,
                target_forward_s=took.forward,
                target_queue_s=took.queue,
                target_batch_rows=took.rows,
            )
        )

    def _good(self, place: int) -> bool:
        return self._right[place] < self._world.chance(self._index, place)

    def _accepted(self, plan: Plan, k: int, place: int) -> int:
        """How many of a block's tokens are the target's."""
        _, _, chance = self._world.copies(place)
        accepted = 0
        while accepted < k and (
            self._good(place + accepted) if plan.drafter is Drafter.MODEL else self._repeats[place + accepted] < chance
        ):
            accepted += 1
        return accepted

    def _look_up(self, plan: Plan, accepted: int, place: int) -> bool | None:
        """Whether the outcome is there that looking ahead was for; None without."""
        if self._looking is None:
            return None
        self._looking.accepted = accepted
        self._looking.right = self._hit(plan, accepted, self._good(place), self._next_best[place])
        return self._looking.here.fired and self._looking.right

    @staticmethod
    def _preparation(looking: LookAhead | None, waited: LookAhead | None) -> Preparation | None:
        """The one of which it is known now what became of it: the last round's, or this one's if its answer is here."""
        if waited is not None and not waited.told:
            return waited.tell()
        return looking.tell() if looking is not None and looking.here.fired else None

    def _hit(self, plan: Plan, accepted: int, own: bool, luck: float) -> bool:
        """Whether the outcome had been prepared."""
        candidates = plan.fanout[accepted]
        if accepted == plan.draft_tokens:
            if own and candidates:
                return True
            candidates -= 1
        return candidates > 0 and luck < 1 - (1 - self._world.second) ** candidates


class Simulation:
    """Runs all sessions of a world to their ends."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.time, self.outcome = world, Time(), Outcome()
        self._seed = seed
        self.target = Replica(self.time, lambda rows, now: world.target_s(rows), world, random.Random(seed))
        self.draft = Replica(self.time, world.draft_s, world, random.Random(seed + 1))
        self.target.other, self.draft.other = self.draft, self.target
        self.target.gather_s = 2 * world.rtt_target_s if world.sessions > 1 else 0.0
        self.active = 0

    def run(self, controllers: list[Decides]) -> Outcome:
        self.active = len(controllers)
        for index, controller in enumerate(controllers):
            session = Session(self, index, controller, self._seed * 1000 + index)
            self.time.spawn(session.live(begin=index * _STAGGER))
        self.time.run()
        return self.outcome


def simulate(world: World, controller: Callable[[int], Decides], seed: int = 1) -> Outcome:
    """All sessions of a world, each with a controller of its own."""
    return Simulation(world, seed).run([controller(index) for index in range(world.sessions)])
