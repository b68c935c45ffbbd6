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
from outrider.inference.job import Job, Outcome
from outrider.inference.kv_cache import BlockPool
from outrider.inference.pace import Pace
from outrider.inference.packed import Segment, pack
from outrider.inference.program import Done, Runner
from outrider.inference.schedule import RowBudget, Shape, rows_per_job
from outrider.inference.sessions import SessionStore
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
        rounds = len(self._admission.waiting) + len(self._running)
        return LoadFacts(len(self.sessions), rounds, used, self._queried, self._hits)

    def submit(self, job: Job) -> None:
        """Queue a job; its outcome is delivered by a later step."""
        self._gather.came_back(job.session_id, self._clock())
        self._admission.submit(job)

    def patience(self) -> float:
        """Seconds that the next pass may wait for sessions of the last one."""
        here = len(self._running) + len(self._admission.waiting)
        return self._gather.patience(self._clock(), here)

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
        self._drop_cancelled()
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

    def _drop_cancelled(self) -> None:
        """What a run has told of stays cached: its answer may have ended there. Half a round is worth nothing."""
        for job in [job for job in self._running if job.cancelled]:
            assert job.session is not None
            self._finish(job, keep=len(job.session.log) if job.partial else None)
            job.deliver(Cancelled("the round was cancelled"))

    def _admit(self) -> None:
        """Begin the rounds that have their memory."""
        for job in self._admission.admit(self._clock()):
            self._count_shared(job)
            self._begin(job)

    def _count_shared(self, job: Job) -> None:
        """Tokens that were looked up in the prefix cache, and found: of rounds that might skip a whole block."""
        if job.claim.prefix_len == 0 or len(job.claim.tokens) > self._runner.block_size:
            self._queried += len(job.claim.tokens)
            self._hits += job.shared

    def _begin(self, job: Job) -> None:
        job.pending = [*job.claim.tokens[job.shared :], *job.program.tail]
        job.wanted = len(job.program.tail) + 1
        self._running.append(job)

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
        for job, _ in planned:
            job.forward_s += seconds
            job.passes += 1
            job.batch_rows = rows
        self._gather.note_pass(seconds, self._clock())
        traces = tuple(job.trace for job, _ in planned if job.trace is not None)
        self._on_pass(PassRecord(wall_ns, wall_ns + int(seconds * 1e9), rows, traces))

    def _commit(self, planned: Sequence[tuple[Job, int]], logits: torch.Tensor) -> None:
        """Note the rows as cached and let each program whose rows are all run go on."""
        offset = 0
        for job, count in planned:
            assert job.session is not None
            job.session.log.extend(job.pending[:count])
            job.session.table.advance(count)
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
            self._finish(job, step.keep)
            job.stream.served = True
            self._gather.left(job.session_id, job.stream, self._clock())
            job.deliver(Outcome(step.result, step.keep, job.timings()))
            return
        job.pending = list(step.tokens)
        job.wanted = 1
        if step.result is not None:
            job.stream.served = True
            job.deliver(job.part(step.result, len(job.session.log)))

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
        unwanted = job.released or (job.cancelled and not job.partial)
        if keep is None or unwanted:
            self.sessions.drop(session.session_id)
        else:
            session.truncate(min(keep, len(session.log)))
