"""How likely draft tokens are accepted, per position: of the pool, and of one session drawn to its pool.

It learns chances given that the tokens before were right, which do not depend on how many were proposed; positions
behind a rejected token and positions that were not proposed say nothing. It does not know times.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from orchestrator.decay import Counts

_MOST = 0.995
_UNLIKELY, _KEPT = 0.002, 0.25
"""Chance below which a row of first tokens, all right or all wrong, says that times have changed; and what then counts
of what was known."""
_STRENGTH = 6.0
"""Trials that the knowledge of the pool is worth to a session, and the position before to a position."""


class Acceptance:
    """One drafter's chances at positions 0 (the first draft token), 1, 2, ..."""

    def __init__(self, half_life: float, first: float = 0.6, strength: float = 2.0) -> None:
        """``first`` is believed of position 0 before anything is known, as if from ``strength`` trials."""
        self._counts = Counts(half_life)
        self._first = first
        self._strength = strength
        self._row = (True, 1.0)

    def note(self, proposed: int, accepted: int, now: float) -> None:
        """A verdict on a block of at least one token."""
        self._watch(accepted > 0, now)
        seen = min(proposed, accepted + 1)
        self._counts.add([float(place < accepted) for place in range(seen)], [1.0] * seen, now)

    def _watch(self, right: bool, now: float) -> None:
        """A row of equal first tokens that was hardly to be expected: what was known counts little from now on."""
        chance = self._counts.share(0, self._first, self._strength, now)
        before, likelihood = self._row
        likelihood = (likelihood if before is right else 1.0) * (chance if right else 1 - chance)
        if likelihood < _UNLIKELY:
            self._counts.weaken(_KEPT)
            likelihood = 1.0
        self._row = (right, likelihood)

    def chances(self, count: int, now: float) -> list[float]:
        """Chances at ``count`` positions; what is unknown is taken to be like the position before."""
        result: list[float] = []
        for place in range(count):
            prior, strength = (result[-1], _STRENGTH) if result else (self._first, self._strength)
            result.append(self._counts.share(place, prior, strength, now))
        return result

    def chances_within(self, pool: Sequence[float], now: float) -> list[float]:
        """Chances of a session whose pool has those of ``pool``; a session that does better than its pool at one
        position is expected to do so at the next."""
        result: list[float] = []
        lead = 1.0
        for place, chance in enumerate(pool):
            own = self._counts.share(place, min(_MOST, chance * lead), _STRENGTH, now)
            result.append(own)
            lead = min(2.0, own / max(chance, 0.01))
        return result


def through(chances: Sequence[float]) -> tuple[float, ...]:
    """Acceptance at positions 1, 2, ... as the README defines it: that token and all before it are right."""
    return tuple(accumulate(chances, mul))
