"""Which rows go into the next pass. Pure functions of the jobs' pending rows; no cache, no clock.

Short work of running sessions (decode steps, verify blocks) goes first and whole. Prompts (new sessions, and
caches that are rebuilt) share what is left of the row budget, or of ``chunk`` while other sessions are in the
middle of an answer: then a pass that carries a prompt stays within a small multiple of one that does not.

Half of the prompts' rows go to the one that waits longest, the rest to those with the least left. So a prompt of
100 tokens is not held up by one of 8 000 that came before it, and the long one is not starved by any number of
short ones: it moves in every pass, and every prompt becomes the oldest one day. Against round-robin this has the
better mean time to a first token (shortest first is optimal for it), and unlike ageing it needs no clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowBudget:
    """rows: most rows of a pass. short: rows without wanted logits up to which a running session's work is short.
    prompt_floor: rows that prompts get however much short work there is (or a chunk, when that is less); more
    when the oldest one's rows whose logits are wanted are more, because those share one pass."""

    rows: int = 256
    short: int = 32
    prompt_floor: int = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """A job as the schedule sees it: rows to run, how many last ones give logits, whether its session has been
    served before."""

    pending: int
    wanted: int
    running: bool = False

    def short(self, budget: RowBudget) -> bool:
        """Whether it is a step of an answer, not a prompt."""
        ahead = self.pending - self.wanted
        return self.pending <= budget.rows and (ahead == 0 or (self.running and ahead <= budget.short))


def _part(shape: Shape, room: int) -> int:
    """Rows of a job that fit, keeping the rows whose logits are wanted in one pass. 0 when none do."""
    if shape.pending <= room:
        return shape.pending
    return max(0, min(room, shape.pending - shape.wanted))


def rows_per_job(jobs: Sequence[Shape], budget: RowBudget, chunk: int) -> list[int]:
    """Rows that each job gets in the next pass, in the order given (oldest first)."""
    prompts = [i for i, job in enumerate(jobs) if not job.short(budget)]
    floor = max(min(budget.prompt_floor, chunk), jobs[prompts[0]].wanted) if prompts else 0
    room = budget.rows - min(floor, budget.rows)
    if jobs and jobs[0].short(budget):  # whoever waits longest moves, whatever it takes
        room = max(room, jobs[0].pending)
    granted = [0] * len(jobs)
    for i, job in enumerate(jobs):
        if job.short(budget) and job.pending <= room:
            granted[i] = job.pending
            room -= job.pending
    room = min(budget.rows - sum(granted), max(chunk, floor))
    for i, rows in _prompt_rows(jobs, prompts, room):
        granted[i] = rows
    return granted


def _prompt_rows(jobs: Sequence[Shape], prompts: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Rows of each prompt: half for the oldest, then the shortest first, then the oldest again."""
    if not prompts:
        return []
    oldest = prompts[0]
    half = min(room, max(-(-room // 2), jobs[oldest].wanted))
    kept = _part(jobs[oldest], half)
    left = room - kept
    rows = []
    for i in sorted(prompts[1:], key=lambda i: jobs[i].pending):
        rows.append((i, _part(jobs[i], left)))
        left -= rows[-1][1]
    return [(oldest, _part(jobs[oldest], kept + left)), *rows]
