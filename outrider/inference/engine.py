"""The engine: sessions, jobs and one packed forward pass at a time.

A step is admit, plan, run, commit. Only one thread may call it (design I6). Who may start is the business of
``admission.py``, what goes into a pass that of ``passes.py``, what follows from it that of ``running.py``. It does not
know gRPC, asyncio or what a round is for: that is the job's program.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from outrider.errors import OutriderError
from outrider.inference.admission import Admission, AdmissionLimits
from outrider.inference.gather import Gather
from outrider.inference.job import Job
from outrider.inference.kv_cache import BlockPool
from outrider.inference.passes import Passes, PassRecord, ignore
from outrider.inference.program import Runner
from outrider.inference.running import Running
from outrider.inference.schedule import RowBudget
from outrider.inference.sessions import SessionStore
from outrider.inference.stream import Stream
from outrider.wire import LoadFacts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Time to live of idle sessions in seconds, the rows of a pass, who may wait for memory, and the rows of a
    prompt that join a pass beside running sessions (0: as many as the measured passes say)."""

    session_ttl_s: float = 900.0
    budget: RowBudget = field(default_factory=RowBudget)
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    chunk_rows: int = 0


class Engine:
    """Continuous batching over a runner: what waits goes into the next pass."""

    def __init__(
        self,
        runner: Runner,
        options: EngineOptions | None = None,
        on_pass: Callable[[PassRecord], None] = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        options = options or EngineOptions()
        self._runner = runner
        self._options = options
        self._on_pass = on_pass
        self._clock = clock
        self.pool = BlockPool(runner.num_blocks)
        self.sessions = SessionStore(self.pool, runner.block_size, options.session_ttl_s)
        self._queried = self._hits = 0
        self._step_began: float | None = None
        self._admission = Admission(self.sessions, runner.max_positions, runner.copy_blocks, options.admission)
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Without rounds and measured times."""
        options = self._options
        self._gather = Gather()
        self._passes = Passes(
            self._runner, options.budget, options.chunk_rows, self._gather, self._on_pass, self._clock
        )
        self._running = Running(self.sessions, self._admission, self._gather, self._clock)

    @property
    def idle(self) -> bool:
        """Whether no job waits or runs."""
        return not self._admission.waiting and not self._running.jobs

    def load(self) -> LoadFacts:
        """A snapshot; numbers only, safe to take from another thread."""
        size = self._runner.block_size
        used = (self.pool.total - self.pool.free) * size
        began = self._step_began
        pass_ms = max(0, int((self._clock() - began) * 1000)) if began is not None else 0
        return LoadFacts(len(self.sessions), self._rounds(), used, self._queried, self._hits, pass_ms)

    def _rounds(self) -> int:
        """Rounds that wait or run; branches are one with the round that they belong to."""
        return len(self._admission.waiting) + len({job.parent or job for job in list(self._running.jobs)})

    def submit(self, job: Job) -> None:
        """Queue a job; its outcome is delivered by a later step."""
        self._gather.came_back(job.session_id, self._clock())
        self._admission.submit(job)

    def patience(self) -> float:
        """Seconds that the next pass may wait for sessions of the last one."""
        return self._gather.patience(self._clock(), self._rounds())

    def start_over(self) -> bool:
        """Void caches and measured times: passes will be computed otherwise. False, and nothing done, while an answer
        is being made."""
        if not self.idle or not self.sessions.forget_all():
            return False
        self._begin_anew()
        return True

    def release(self, session_id: str) -> bool:
        """Forget a session. A round of it that still runs ends first, and the session goes with it."""
        session = self.sessions.get(session_id)
        if session is None or not session.busy:
            return self.sessions.drop(session_id)
        for job in self._running.of(session):
            job.cancelled = job.released = True
        return True

    def end(self, stream: Stream) -> None:
        """A stream has ended: what was prepared for it is of no use to anybody."""
        for session in self.sessions:
            if session.stream is stream:
                session.prune()

    def expire(self) -> None:
        """Drop sessions that nobody uses any more."""
        self.sessions.expire(self._clock())
        self._gather.forget_closed()

    def abort(self, error: OutriderError) -> None:
        """End every job with an error."""
        for job in self._admission.waiting:
            job.deliver(error)
        self._admission.waiting = []
        for job in list(self._running.jobs):
            self._running.fail(job, error)
        for session in self.sessions:
            session.busy = False

    def step(self) -> bool:
        """Admit what fits, run one pass and deliver what is complete. False when there was nothing to run."""
        self._step_began = self._clock()
        try:
            return self._step()
        finally:
            self._step_began = None

    def _step(self) -> bool:
        self._running.drop_abandoned()
        self._admit()
        planned = self._passes.plan(self._running.jobs, self.sessions)
        if not planned:
            return False
        try:
            logits = self._passes.run(planned)
        except Exception as error:
            log.exception("a forward pass failed; its %d rounds fail with it", len(planned))
            for job, _ in planned:
                self._running.fail(job, OutriderError(f"the forward pass failed: {error}"))
            return True
        self._running.commit(planned, logits)
        return True

    def _admit(self) -> None:
        """Begin the rounds that have their memory, and then the branches for which there is some left."""
        for job in self._admission.admit(self._clock()):
            self._count_shared(job)
            self._running.begin(job)
        self._running.branch_out()
        self._running.drop_abandoned()  # branches that were not adopted, or whose blocks others took

    def _count_shared(self, job: Job) -> None:
        """Tokens that were looked up in the prefix cache, and found: of rounds that might skip a whole block."""
        if job.claim.prefix_len == 0 or len(job.claim.tokens) > self._runner.block_size:
            self._queried += max(0, job.claim.end - job.start)
            self._hits += job.shared
