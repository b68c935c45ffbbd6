"""Which rows go into the next pass. Pure functions of the jobs' pending rows; no cache, no clock.

Short work (decode steps, verify blocks) goes first and always; prompts share what is left of the row budget,
the longest-waiting first, and always get a minimum, so that neither starves the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowBudget:
    """rows: most rows of a pass. short: pending rows up to which a job counts as short.
    prompt_floor: rows that the oldest prompt gets however many short jobs there are; more when the rows whose
    logits it wants are more, because those share one pass."""

    rows: int = 256
    short: int = 32
    prompt_floor: int = 32


def _chunk(pending: int, wanted: int, room: int) -> int:
    """Rows of a job that fit, keeping the rows whose logits are wanted in one pass. 0 when none do."""
    if pending <= room:
        return pending
    return max(0, min(room, pending - wanted))


def rows_per_job(jobs: Sequence[tuple[int, int]], budget: RowBudget) -> list[int]:
    """Rows that each (pending, wanted) job gets in the next pass, in the order given (oldest first)."""
    granted = [0] * len(jobs)
    prompts = [i for i, (pending, _) in enumerate(jobs) if pending > budget.short]
    floor = min(budget.rows, max(budget.prompt_floor, jobs[prompts[0]][1])) if prompts else 0
    room = budget.rows - floor
    for i, (pending, _) in enumerate(jobs):
        if pending <= budget.short and pending <= room:
            granted[i] = pending
            room -= pending
    room += floor
    for i in prompts:
        granted[i] = _chunk(*jobs[i], room)
        room -= granted[i]
    return granted
