"""Sums of orchestrators since they began, what was added between two looks, and what that comes to in a second.

By the definitions of the README. Where there was nothing to divide by, a ratio is None. It knows no clock and no call.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from outrider.v1 import orchestrator_pb2 as pb

_PLAIN = (
    "requests", "rounds", "proposed", "accepted", "emitted", "look_aheads", "look_ahead_hits", "failovers",
    "cache_misses", "prompt_tokens",
)  # fmt: skip


def ratio(part: float, whole: float) -> float | None:
    """None of nothing."""
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Counts:
    """As ``Totals`` of the wire, of any stretch of time."""

    requests: int = 0
    rounds: int = 0
    proposed: int = 0
    accepted: int = 0
    emitted: int = 0
    look_aheads: int = 0
    look_ahead_hits: int = 0
    failovers: int = 0
    cache_misses: int = 0
    prompt_tokens: int = 0
    proposed_at: tuple[int, ...] = ()
    accepted_at: tuple[int, ...] = ()
    rounds_by_mode: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, totals: pb.Totals) -> "Counts":
        """The sums that an orchestrator tells."""
        plain = {name: getattr(totals, name) for name in _PLAIN}
        at = (tuple(totals.proposed_at), tuple(totals.accepted_at))
        return cls(**plain, proposed_at=at[0], accepted_at=at[1], rounds_by_mode=dict(totals.rounds_by_mode))

    def plus(self, other: "Counts", sign: int = 1) -> "Counts":
        """Both together; with a ``sign`` of -1 what this one has more."""
        modes = sorted({*self.rounds_by_mode, *other.rounds_by_mode})
        return Counts(
            **{name: getattr(self, name) + sign * getattr(other, name) for name in _PLAIN},
            proposed_at=_each(self.proposed_at, other.proposed_at, sign),
            accepted_at=_each(self.accepted_at, other.accepted_at, sign),
            rounds_by_mode={
                mode: self.rounds_by_mode.get(mode, 0) + sign * other.rounds_by_mode.get(mode, 0) for mode in modes
            },
        )

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / proposed."""
        return ratio(self.accepted, self.proposed)

    @property
    def mean_accepted_length(self) -> float | None:
        """emitted / rounds, the target's own token included."""
        return ratio(self.emitted, self.rounds)

    @property
    def hit_rate(self) -> float | None:
        """Of look-aheads, those that had the block ready."""
        return ratio(self.look_ahead_hits, self.look_aheads)

    @property
    def acceptance_at(self) -> tuple[float | None, ...]:
        """By place in the block: what was not proposed is unobserved, not rejected."""
        return tuple(ratio(*each) for each in zip_longest(self.accepted_at, self.proposed_at, fillvalue=0))


def _each(some: Iterable[int], others: Iterable[int], sign: int) -> tuple[int, ...]:
    return tuple(a + sign * b for a, b in zip_longest(some, others, fillvalue=0))


@dataclass(frozen=True, slots=True)
class Interval:
    """What one orchestrator did within so many seconds."""

    counts: Counts
    seconds: float


@dataclass(frozen=True, slots=True)
class Rates:
    """What several orchestrators did at the same time, each in an interval of its own. ``seconds``: the longest."""

    counts: Counts
    seconds: float
    requests_per_s: float
    tokens_per_s: float
    rounds_per_s: float
    prompt_tokens_per_s: float

    @classmethod
    def of(cls, intervals: Iterable[Interval | None]) -> "Rates | None":
        """Of those that there are; None without any."""
        known = [each for each in intervals if each is not None and each.seconds > 0]
        if not known:
            return None
        counts = Counts()
        for each in known:
            counts = counts.plus(each.counts)

        def per_s(name: str) -> float:
            return sum((getattr(each.counts, name) / each.seconds for each in known), start=0.0)

        rates = (per_s("requests"), per_s("emitted"), per_s("rounds"), per_s("prompt_tokens"))
        return cls(counts, max(each.seconds for each in known), *rates)

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        counts = self.counts
        return {
            "seconds": round(self.seconds, 3),
            "requests_per_s": round(self.requests_per_s, 3),
            "tokens_per_s": round(self.tokens_per_s, 2),
            "rounds_per_s": round(self.rounds_per_s, 2),
            "prompt_tokens_per_s": round(self.prompt_tokens_per_s, 2),
            "acceptance_rate": _rounded(counts.acceptance_rate),
            "mean_accepted_length": _rounded(counts.mean_accepted_length),
            "look_ahead_hit_rate": _rounded(counts.hit_rate),
            "acceptance_at": [_rounded(each) for each in counts.acceptance_at],
            "rounds_by_mode": dict(counts.rounds_by_mode),
            **{name: getattr(counts, name) for name in _PLAIN},
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
