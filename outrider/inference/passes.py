"""One forward pass of the engine: which rows go into it, running them, and what it took.

Which rows go first is the business of ``schedule.py``, how many of a prompt that of ``pace.py``. It does not know what
follows from the logits, nor who may start.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from outrider.inference.admission import STALLED_S
from outrider.inference.gather import Gather
from outrider.inference.job import Job
from outrider.inference.pace import Pace
from outrider.inference.packed import Segment, pack
from outrider.inference.program import Runner
from outrider.inference.schedule import RowBudget, Shape, rows_per_job
from outrider.inference.sessions import SessionStore

Planned = Sequence[tuple[Job, int]]
"""Jobs of a pass, and how many rows each gets."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One forward pass: wall-clock nanoseconds, rows without padding, the traces of the rounds it served, and the
    seconds that rounds waited which began in it."""

    start_ns: int
    end_ns: int
    rows: int
    traces: tuple[Any, ...]
    waits: tuple[float, ...] = ()


def ignore(record: PassRecord) -> None:
    """An observer of passes that does nothing."""


class Passes:
    """Owner of the measured times of one engine's passes."""

    def __init__(
        self,
        runner: Runner,
        budget: RowBudget,
        chunk_rows: int,
        gather: Gather,
        on_pass: Callable[[PassRecord], None],
        clock: Callable[[], float],
    ) -> None:
        """``chunk_rows``: prompt rows beside running sessions, 0 for as many as the measured passes say."""
        self._runner = runner
        self._budget = budget
        self._chunk_rows = chunk_rows
        self._gather = gather
        self._on_pass = on_pass
        self._clock = clock
        self._pace = Pace()
        self._chunk_in_hand = False
        self._last = (0.0, 0.0)

    def plan(self, running: Sequence[Job], sessions: SessionStore) -> list[tuple[Job, int]]:
        """Jobs of the next pass and how many rows each gets; none when there is nothing to run."""
        shapes = [job.shape for job in running]
        chunk = self._chunk(running, shapes, sessions)
        rows = rows_per_job(shapes, self._budget, chunk)
        self._chunk_in_hand = chunk > 0 and not all(shape.short(self._budget) for shape in shapes)
        return [(job, count) for job, count in zip(running, rows, strict=True) if count]

    def _chunk(self, running: Sequence[Job], shapes: Sequence[Shape], sessions: SessionStore) -> int:
        """Most prompt rows of the next pass: fewer when others are in the middle of an answer."""
        budget = self._budget
        steps = [shape.pending for shape in shapes if shape.short(budget)]
        if len(steps) == len(shapes):
            return budget.rows
        prompts = {job.session_id for job, shape in zip(running, shapes, strict=True) if not shape.short(budget)}
        others = sessions.served(self._clock() - STALLED_S) - prompts
        if not others and not steps:
            return budget.rows
        if any(self._missed(job, shape) for job, shape in zip(running, shapes, strict=True)):
            return 0
        chunk = self._chunk_rows or self._pace.chunk(max(sum(steps), len(others)), budget.rows)
        return min(chunk, budget.rows)

    def _missed(self, job: Job, shape: Shape) -> bool:
        """Whether a step of an answer came while a pass with a chunk ran: one such wait is enough."""
        began, ended = self._last
        return self._chunk_in_hand and shape.short(self._budget) and began < job.created < ended

    def run(self, planned: Planned) -> torch.Tensor:
        """fp32 logits [W, V] of the rows that the jobs want. Raises what the model raises."""
        segments = [self._segment(job, count) for job, count in planned]
        wall, start = time.time_ns(), time.perf_counter()
        began = [job for job, _ in planned if job.queue_s is None]
        for job in began:
            job.queue_s = start - job.created
        logits = self._runner.forward(pack(segments, self._runner.block_size, self._runner.row_multiple))
        self._last = (start, time.perf_counter())
        waits = tuple(job.queue_s or 0.0 for job in began if job.parent is None)
        self._note(planned, wall, self._last[1] - start, waits)
        return logits

    @staticmethod
    def _segment(job: Job, count: int) -> Segment:
        assert job.session is not None
        table = job.session.table
        wanted = job.wanted if count == len(job.pending) else 0
        return Segment(job.pending[:count], table.length, table.blocks, wanted)

    def _note(self, planned: Planned, wall_ns: int, seconds: float, waits: tuple[float, ...]) -> None:
        rows = sum(count for _, count in planned)
        self._pace.note(rows, seconds)
        rounds = dict.fromkeys(job.parent or job for job, _ in planned)
        for job in rounds:
            job.forward_s += seconds
            job.passes += 1
            job.batch_rows = rows
        self._gather.note_pass(seconds, self._clock())
        traces = tuple(job.trace for job in rounds if job.trace is not None)
        self._on_pass(PassRecord(wall_ns, wall_ns + int(seconds * 1e9), rows, traces, waits))
