"""Which outcomes of a verdict are likeliest, so that look-ahead can prepare for them under a budget. Pure numbers.

An outcome is a number n of accepted draft tokens and the target's own token after them. Where a draft token was
rejected, the target's token is among the draft's next f choices with a chance that ``coverage`` gives; where all were
accepted, the draft's own next token is as likely as any other draft token. After arXiv 2603.03251.
"""

import heapq
from collections.abc import Sequence
from itertools import accumulate, pairwise

MOST_EACH = 16
"""Most outcomes for one number of accepted tokens, as in the protocol."""
USUAL_SHAPE = 0.7


def coverage(shape: float) -> tuple[float, ...]:
    """Chances for 0, 1, ... candidates: 1 - (1 + candidates) ** -shape."""
    return tuple(1 - (1 + candidates) ** -shape for candidates in range(MOST_EACH + 1))


USUAL_COVERAGE = coverage(USUAL_SHAPE)
"""Before anything was measured: a little under 0.4 for one candidate, 0.8 for eight."""


def ranked(chances: Sequence[float], coverage: Sequence[float], most: int) -> list[tuple[float, int]]:
    """The ``most`` likeliest outcomes, the likeliest first: (chance, number accepted).

    ``chances`` are those of k + 1 draft tokens, each given that the ones before were right: the block's and one more.
    """
    reached = list(accumulate(chances[:-1], lambda before, chance: before * chance, initial=1.0))
    steps = [later - earlier for earlier, later in pairwise(coverage)]
    ways = [[before * (1 - chance) * step for step in steps] for before, chance in zip(reached, chances)]
    ways[-1] = [reached[-1] * chances[-1], *ways[-1][:-1]]
    heap = [(-way[0], accepted, 0) for accepted, way in enumerate(ways)]
    heapq.heapify(heap)
    result: list[tuple[float, int]] = []
    while heap and len(result) < most:
        negative, accepted, index = heap[0]
        result.append((-negative, accepted))
        if index + 1 < len(steps):
            heapq.heapreplace(heap, (-ways[accepted][index + 1], accepted, index + 1))
        else:
            heapq.heappop(heap)
    return result


def hit_rate(outcomes: Sequence[tuple[float, int]]) -> float:
    """Chance that one of these outcomes comes."""
    return min(1.0, sum(chance for chance, _ in outcomes))


def spread(outcomes: Sequence[tuple[float, int]], draft_tokens: int) -> tuple[int, ...]:
    """How many of the outcomes there are for each number accepted, 0 to ``draft_tokens``."""
    result = [0] * (draft_tokens + 1)
    for _, accepted in outcomes:
        result[accepted] += 1
    return tuple(result)
