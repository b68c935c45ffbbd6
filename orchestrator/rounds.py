"""Seconds of a round: by formula, and corrected by what such rounds took. Measurement at the same load wins."""

import math
from collections.abc import Callable

from orchestrator.decay import Level
from orchestrator.plans import Drafter
from outrider.throughput import Costs

Kind = tuple[Drafter, bool]
"""Who drafts, and whether it looks ahead."""
PLAIN: Kind = (Drafter.NONE, False)


def load_of(sessions: int) -> int:
    """The load that so many sessions are: the nearest power of two, 12 to 22 being 16."""
    return round(math.log2(sessions))


_LONG, _SHORT = 4096.0, 256.0
_STRENGTH, _ARM_STRENGTH = 2.0, 3.0


def formula_s(kind: Kind, k: int, costs: Costs) -> float:
    """A plain round of a run; proposal and verdict; of copies and of looking ahead, the verdict."""
    drafter, ahead = kind
    if drafter is Drafter.NONE:
        return costs.plain_s()
    if ahead or drafter is Drafter.NGRAM:
        return costs.verify_s(k)
    return costs.propose_s(k) + costs.verify_s(k)


class MeasuredRounds:
    """Owner of what rounds took.

    Of just this plan and load it keeps seconds, which stay true when the costs in the formula are measured anew in
    other company; of looking ahead, in whose company the costs are not measured, the ratio to the formula. Behind
    them stand ratios of this kind at this load, and of this kind.
    """

    def __init__(self) -> None:
        self._ratios: dict[tuple[object, ...], Level] = {}
        self._seconds: dict[tuple[Kind, int, int], tuple[Level, Level]] = {}
        self._seen: dict[tuple[Kind, int, int], float] = {}

    @staticmethod
    def _wider(kind: Kind, k: int, load: int) -> list[tuple[tuple[object, ...], float]]:
        """Keys of ratios and their half-lives, the widest first."""
        keys: list[tuple[tuple[object, ...], float]] = [((kind,), _LONG), ((kind, load), _LONG / 2)]
        return [*keys, ((kind, load, k), _SHORT)] if kind[1] else keys

    def note(self, kind: Kind, k: int, sessions: int, took: float, predicted: float, now: float) -> None:
        """A round that took so many seconds where the formula said ``predicted``. Rounds of all sessions share their
        passes: together they count as one."""
        load, weight = load_of(sessions), 1 / sessions
        for key, half_life in self._wider(kind, k, load):
            self._ratios.setdefault(key, Level(half_life)).note(took / predicted, now, weight)
        self._seen[kind, k, load] = self._seen.get((kind, k, load), 0.0) + weight
        levels = self._seconds.setdefault((kind, k, load), (Level(_SHORT), Level(_SHORT)))
        for level, value in zip(levels, (took, sessions)):
            level.note(value, now, weight)

    def hint(self, kind: Kind, sessions: int, ratio: float, now: float) -> None:
        """A round in other company than is asked about took so much longer than its formula."""
        for key, half_life in self._wider(kind, 0, load_of(sessions))[:2]:
            self._ratios.setdefault(key, Level(half_life)).note(ratio, now)

    def seconds(self, kind: Kind, k: int, sessions: int, formula: Callable[[int], float], now: float) -> float:
        """Seconds of such a round. ``formula`` gives what it says for a number of sessions."""
        load, said, ratio = load_of(sessions), formula(sessions), 1.0
        for key, _ in self._wider(kind, k, load):
            if (level := self._ratios.get(key)) is not None:
                ratio = level.blend(ratio, _STRENGTH, now)
        known = self._seconds.get((kind, k, load))
        if known is None or kind[1]:
            return said * ratio
        took, then = known[0], round(known[1].value)
        scale = 1.0 if then == sessions else said / formula(then)
        return scale * took.blend(said * ratio / scale, _ARM_STRENGTH, now)

    def tried(self, kind: Kind, sessions: int) -> bool:
        """Whether rounds of this kind were ever seen at this load."""
        return (kind, load_of(sessions)) in self._ratios

    def seen(self, kind: Kind, k: int, sessions: int) -> float:
        """Rounds of just this plan and load that were ever seen."""
        return self._seen.get((kind, k, load_of(sessions)), 0.0)

    def weight(self, kind: Kind, k: int, sessions: int, now: float) -> float:
        """Recent rounds of just this plan and load that are known."""
        known = self._seconds.get((kind, k, load_of(sessions)))
        return known[0].weight(now) if known else 0.0
