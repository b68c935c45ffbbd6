"""Which outcomes of a verdict look-ahead prepares for: the likeliest under a budget.

An outcome is a number n of accepted draft tokens and the target's own token after them. Where a draft token was
rejected, the target's token is among the draft's next f choices with a chance that is measured as a multiple of a
fixed curve; where all were accepted, the draft's own next token is as likely as any other draft token.
"""

import heapq
from collections.abc import Sequence
from itertools import accumulate, pairwise

from orchestrator.decay import Counts

MOST_EACH = 16
MOST_TOGETHER = 64
_CURVE = [1 - (1 + f) ** -0.7 for f in range(MOST_EACH + 1)]
_STRENGTH = 4.0
_MOST = 0.98


class Coverage:
    """Learned chance that the target's token is among the f next choices where the draft's token was rejected."""

    def __init__(self, half_life: float) -> None:
        self._counts = Counts(half_life)

    def note(self, candidates: int, hit: bool, now: float) -> None:
        """The target's token was, or was not, among so many candidates."""
        if candidates:
            self._counts.add([float(hit)], [_CURVE[candidates]], now)

    def curve(self, now: float) -> list[float]:
        """Chances for 0 to MOST_EACH candidates."""
        scale = self._counts.share(0, 1.0, _STRENGTH, now)
        return [min(_MOST, scale * value) for value in _CURVE]


def ranked(chances: Sequence[float], curve: Sequence[float], most: int) -> list[tuple[float, int]]:
    """The ``most`` likeliest outcomes, the likeliest first: (chance, number accepted).

    ``chances`` are those of k + 1 positions, each given the ones before.
    """
    reached = list(accumulate(chances[:-1], lambda all_before, chance: all_before * chance, initial=1.0))
    steps = [later - earlier for earlier, later in pairwise(curve)]
    ways = [[before * (1 - chance) * step for step in steps] for before, chance in zip(reached, chances)]
    ways[-1] = [reached[-1] * chances[-1], *ways[-1][:-1]]
    heap = [(-way[0], accepted, 0) for accepted, way in enumerate(ways)]
    heapq.heapify(heap)
    result: list[tuple[float, int]] = []
    while heap and len(result) < most:
        negative, accepted, index = heap[0]
        result.append((-negative, accepted))
        if index + 1 < MOST_EACH:
            heapq.heapreplace(heap, (-ways[accepted][index + 1], accepted, index + 1))
        else:
            heapq.heappop(heap)
    return result


def spread(outcomes: Sequence[tuple[float, int]], draft_tokens: int) -> tuple[int, ...]:
    """How many of the outcomes there are for each number accepted, 0 to ``draft_tokens``."""
    result = [0] * (draft_tokens + 1)
    for _, accepted in outcomes:
        result[accepted] += 1
    return tuple(result)
