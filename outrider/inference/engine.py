"""The engine: sessions, jobs and one packed forward pass at a time.

A step is admit, plan, run, commit. The engine owns the sessions and their blocks; only one thread may call
it (design I6). Who may start is the business of ``admission.py``, which rows go first that of ``schedule.py``. It
does not know gRPC, asyncio or what a round is for: that is the job's program.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from outrider.errors import Cancelled, OutriderError
from outrider.inference.admission import STALLED_S, Admission, AdmissionLimits
from outrider.inference.gather import Gather
from outrider.inference.harvest import Harvest
from outrider.inference.job import Job, Outcome
from outrider.inference.kv_cache import BlockPool
from outrider.inference.pace import Pace
from outrider.inference.packed import Segment, pack
from outrider.inference.program import Done, Fork, Resumable, Runner
from outrider.inference.schedule import RowBudget, Shape, rows_per_job
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


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One forward pass: wall-clock nanoseconds, rows without padding, and the traces of the rounds it served."""

    start_ns: int
    end_ns: int
    rows: int
    traces: tuple[Any, ...]


def _ignore(record: PassRecord) -> None:
    """Default observer of passes."""


class Engine:
    """Continuous batching over a runner: what waits goes into the next pass."""

    def __init__(
        self,
        runner: Runner,
        options: EngineOptions | None = None,
        on_pass: Callable[[PassRecord], None] = _ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runner = runner
        self._options = options or EngineOptions()
        self._on_pass = on_pass
        self._clock = clock
        self.pool = BlockPool(runner.num_blocks)
        self.sessions = SessionStore(self.pool, runner.block_size, self._options.session_ttl_s)
        self._queried = self._hits = 0
        self._admission = Admission(self.sessions, runner.max_positions, runner.copy_blocks, self._options.admission)
        self._pace = Pace()
        self._gather = Gather()
        self._running: list[Job] = []

    @property
    def idle(self) -> bool:
        """Whether no job waits or runs."""
        return not self._admission.waiting and not self._running

    def load(self) -> LoadFacts:
        """A snapshot; numbers only, safe to take from another thread."""
        size = self._runner.block_size
        used = (self.pool.total - self.pool.free) * size
        return LoadFacts(len(self.sessions), self._rounds(), used, self._queried, self._hits)

    def _rounds(self) -> int:
        """Rounds that wait or run; branches are one with the round that they belong to."""
        return len(self._admission.waiting) + len({job.parent or job for job in list(self._running)})

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
        self._pace, self._gather = Pace(), Gather()
        return True

    def release(self, session_id: str) -> bool:
        """Forget a session. A round of it that still runs ends first, and the session goes with it."""
        session = self.sessions.get(session_id)
        if session is None or not session.busy:
            return self.sessions.drop(session_id)
        for job in self._running:
            if job.session is session:
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
        for job in list(self._running):
            self._fail(job, error)
        for session in self.sessions:
            session.busy = False

    def step(self) -> bool:
        """Admit what fits, run one pass and deliver what is complete. False when there was nothing to run."""
        self._drop_abandoned()
        self._admit()
        planned = self._plan()
        if not planned:
            return False
        try:
            logits = self._run(planned)
        except Exception as error:
            log.exception("a forward pass failed; its %d rounds fail with it", len(planned))
            for job, _ in planned:
                self._fail(job, OutriderError(f"the forward pass failed: {error}"))
            return True
        self._commit(planned, logits)
        return True

    def _drop_abandoned(self) -> None:
        """What a run has told of stays cached: its answer may have ended there. So does what was prepared. Otherwise
        half a round is worth nothing."""
        for job in [job for job in self._running if job.abandoned]:
            assert job.session is not None
            self._finish(job, keep=len(job.session.log) if job.stays else None)
            job.deliver(Cancelled("the round was cancelled"))

    def _admit(self) -> None:
        """Begin the rounds that have their memory, and then the branches for which there is some left."""
        for job in self._admission.admit(self._clock()):
            self._count_shared(job)
            self._begin(job)
        for job in list(self._running):
            if job.fork is not None:
                self._branch_out(job, job.fork)
        self._drop_abandoned()  # branches that were not adopted, or whose blocks others took

    def _count_shared(self, job: Job) -> None:
        """Tokens that were looked up in the prefix cache, and found: of rounds that might skip a whole block."""
        if job.claim.prefix_len == 0 or len(job.claim.tokens) > self._runner.block_size:
            self._queried += max(0, job.claim.end - job.start)
            self._hits += job.shared

    def _begin(self, job: Job) -> None:
        job.pending = job.rows()
        job.wanted = len(job.program.tail) + 1
        self._running.append(job)
        self._running.sort(key=lambda job: job.optional)
        if job.known and isinstance(job.program, Resumable):
            done = job.program.resume(job.known, job.claim.end)
            if done is not None:
                self._complete(job, done)

    def _plan(self) -> list[tuple[Job, int]]:
        """Jobs of the next pass and how many rows each gets."""
        shapes = [job.shape for job in self._running]
        rows = rows_per_job(shapes, self._options.budget, self._chunk(shapes))
        return [(job, count) for job, count in zip(self._running, rows, strict=True) if count]

    def _chunk(self, shapes: Sequence[Shape]) -> int:
        """Most prompt rows of the next pass: fewer when others are in the middle of an answer."""
        budget = self._options.budget
        steps = [shape.pending for shape in shapes if shape.short(budget)]
        if len(steps) == len(shapes):
            return budget.rows
        prompts = {job.session_id for job, shape in zip(self._running, shapes, strict=True) if not shape.short(budget)}
        others = self.sessions.served(self._clock() - STALLED_S) - prompts
        if not others and not steps:
            return budget.rows
        chunk = self._options.chunk_rows or self._pace.chunk(max(sum(steps), len(others)), budget.rows)
        return min(chunk, budget.rows)

    def _run(self, planned: Sequence[tuple[Job, int]]) -> torch.Tensor:
        segments = []
        for job, count in planned:
            assert job.session is not None
            table = job.session.table
            wanted = job.wanted if count == len(job.pending) else 0
            segments.append(Segment(job.pending[:count], table.length, table.blocks, wanted))
        wall, start = time.time_ns(), time.perf_counter()
        for job, _ in planned:
            if job.queue_s is None:
                job.queue_s = start - job.created
        logits = self._runner.forward(pack(segments, self._runner.block_size, self._runner.row_multiple))
        self._note_pass(planned, wall, time.perf_counter() - start)
        return logits

    def _note_pass(self, planned: Sequence[tuple[Job, int]], wall_ns: int, seconds: float) -> None:
        rows = sum(count for _, count in planned)
        self._pace.note(rows, seconds)
        rounds = dict.fromkeys(job.parent or job for job, _ in planned)
        for job in rounds:
            job.forward_s += seconds
            job.passes += 1
            job.batch_rows = rows
        self._gather.note_pass(seconds, self._clock())
        traces = tuple(job.trace for job in rounds if job.trace is not None)
        self._on_pass(PassRecord(wall_ns, wall_ns + int(seconds * 1e9), rows, traces))

    def _commit(self, planned: Sequence[tuple[Job, int]], logits: torch.Tensor) -> None:
        """Note the rows as cached and let each program whose rows are all run go on."""
        offset = 0
        for job, count in planned:
            assert job.session is not None
            job.session.log.extend(job.pending[:count])
            job.session.table.advance(count)
            if job.parent is None:
                job.session.offer(min(job.session.table.length, job.claim.end))  # never what is only a guess
            del job.pending[:count]
            if not job.pending:
                rows = logits[offset : offset + job.wanted]
                offset += job.wanted
                self._advance(job, rows)

    def _advance(self, job: Job, rows: torch.Tensor) -> None:
        assert job.session is not None
        try:
            step = job.program.advance(rows, job.session.log.tokens)
        except Exception as error:
            if not isinstance(error, OutriderError):
                log.exception("a round of session %s failed", job.session_id)
            self._fail(job, error)
            return
        if isinstance(step, Done):
            self._complete(job, step)
            return
        if isinstance(step, Fork):
            job.session.truncate(step.keep)
            job.fork = step
            return
        job.pending = list(step.tokens)
        job.wanted = 1
        if step.result is not None:
            job.stream.served = True
            job.deliver(job.part(step.result, len(job.session.log)))

    def _complete(self, job: Job, done: Done) -> None:
        self._finish(job, done.keep)
        job.stream.served = True
        if not job.optional:
            self._gather.left(job.session_id, job.stream, self._clock())
        job.deliver(Outcome(done.result, done.keep, job.timings()))

    def _branch_out(self, job: Job, fork: Fork) -> None:
        """Leave the main line as it is and run the branches that find room."""
        harvest = Harvest(job, fork)
        started = self._admission.branch_out(harvest.jobs(), self._clock())
        self._finish(job, fork.keep)
        job.stream.served = True
        for branch in started:
            self._begin(branch)
        harvest.expect(started)

    def _fail(self, job: Job, error: Exception) -> None:
        """End a job whose cache cannot be trusted any more."""
        self._finish(job, keep=None)
        job.deliver(error)

    def _finish(self, job: Job, keep: int | None) -> None:
        """Take a job out of the engine; ``keep`` cuts its session's cache, None forgets the session."""
        self._running.remove(job)
        session = job.session
        assert session is not None
        session.busy = False
        session.last_used = self._clock()
        unwanted = job.released or (job.cancelled and not job.stays)
        if not session.alive:
            return
        if keep is None or unwanted:
            self.sessions.discard(session)
        else:
            session.truncate(min(keep, len(session.log)))
