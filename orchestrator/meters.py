"""The numbers of one orchestrator, by the definitions of the README: what rounds, exchanges and requests add to them.

It knows what is counted, not why anything happened.
"""

import itertools
from collections.abc import Iterator

from orchestrator.plans import Drafter
from orchestrator.totals import Round
from outrider import semconv
from outrider.instruments import Counter, Histogram, Instrument, Labels, Number, Reading, Series


class TierMeters:
    """The numbers of the exchanges with one tier."""

    __slots__ = ("exchange_s", "misses", "network_s", "received", "sent", "tier")

    def __init__(self, tier: str, exchange_s: Series, network_s: Series, misses: Counter) -> None:
        self.tier = tier
        self.exchange_s = exchange_s
        self.network_s = network_s
        self.misses = misses
        self.sent = self.received = 0

    def exchange(self, took_s: float, network_us: int | None, received: int) -> None:
        """A message was answered; ``sent`` was counted as it left. In a run nobody can tell the network's time."""
        self.exchange_s.record(took_s)
        if network_us is not None:
            self.network_s.record(network_us / 1e6)
        self.received += received

    def missed(self, reason: str) -> None:
        """The answer was a CacheMiss."""
        self.misses.add(1, self.tier, reason)


_TIERS = ("draft", "target")
_REFUSALS = ("tenant_rate", "crowded", "waited", "deadline")


def _at_zero(*labels: tuple[str, ...]) -> dict[Labels, Number]:
    """Series that are known beforehand begin at 0: the first event of one that begins at 1 is in no rate."""
    return dict.fromkeys(itertools.product(*labels), 0)


_Kind = tuple[str, Drafter, int, int, int]
"""Rounds that are counted as one: mode, drafter, proposed, accepted, emitted."""


class Meters:
    """Owner of the counts. A round costs a microsecond: rounds are counted by what they have in common, and all that is
    exported of them is worked out when it is read."""

    def __init__(self) -> None:
        self._rounds: dict[_Kind, int] = {}
        self.round_s = Histogram(semconv.M_ROUND)
        self.look_aheads = Counter(semconv.M_LOOK_AHEADS)
        self.wasted = Counter(semconv.M_WASTED)
        self.exchange_s = Histogram(semconv.M_EXCHANGE)
        self.network_s = Histogram(semconv.M_NETWORK)
        self.misses = Counter(semconv.M_MISSES, _at_zero(_TIERS, ("moved", "lost")))
        self.failovers = Counter(semconv.M_FAILOVERS, _at_zero(_TIERS, ("Unavailable",)))
        self.faults = Counter(semconv.M_FAULTS)
        self.requests = Counter(semconv.M_REQUESTS)
        self.refusals = Counter(semconv.M_REFUSALS, _at_zero(_REFUSALS))
        self.prompt = Counter(semconv.M_PROMPT)
        self.cached = Counter(semconv.M_CACHED)
        self.request_s = Histogram(semconv.M_REQUEST)
        self.queue_s = Histogram(semconv.M_QUEUE)
        self.ttft_s = Histogram(semconv.M_TTFT)
        self.tpot_s = Histogram(semconv.M_TPOT)
        self.tiers = {tier: self._tier(tier) for tier in _TIERS}

    def _tier(self, tier: str) -> TierMeters:
        return TierMeters(tier, self.exchange_s.of(tier), self.network_s.of(tier), self.misses)

    def instruments(self) -> list[Instrument]:
        """All of them."""
        made = [each for each in vars(self).values() if isinstance(each, Counter | Histogram)]
        derived = [
            Reading(semconv.M_ROUNDS, self.rounds),
            Reading(semconv.M_EMITTED, self.emitted),
            Reading(semconv.M_DRAFTS, lambda: {(): self.drafts}),
            Reading(semconv.M_PROPOSED, self.proposed),
            Reading(semconv.M_ACCEPTED, self.accepted),
            Reading(semconv.M_PROPOSED_AT, self.proposed_at),
            Reading(semconv.M_ACCEPTED_AT, self.accepted_at),
            Reading(semconv.M_BYTES, self.bytes),
        ]
        return [*made, *derived]

    def round(self, done: Round) -> None:
        """A round is over."""
        mode = done.mode
        kind = (mode, done.drafter, len(done.block), done.num_accepted, len(done.emitted))
        self._rounds[kind] = self._rounds.get(kind, 0) + 1
        self.round_s.record((done.propose_us + done.verify_us) / 1e6, mode)
        if done.hit is not None:
            self.look_aheads.add(1, "hit" if done.hit else "miss")
        if done.wasted:
            self.wasted.add(done.wasted)

    def rounds(self) -> dict[Labels, Number]:
        """By mode and draft tokens."""
        return _sums(((mode, proposed), count) for (mode, _, proposed, _, _), count in self._read())

    def emitted(self) -> dict[Labels, Number]:
        """Tokens emitted, by mode."""
        return _sums(((mode,), emitted * count) for (mode, _, _, _, emitted), count in self._read())

    def bytes(self) -> dict[Labels, Number]:
        """Of messages, by tier and direction."""
        both = [(tier, way, count) for tier, m in self.tiers.items() for way, count in _directions(m)]
        return {(tier, way): count for tier, way, count in both if count}

    @property
    def drafts(self) -> int:
        """Rounds with draft tokens."""
        return sum(count for (_, _, proposed, _, _), count in self._read() if proposed)

    def proposed(self) -> dict[Labels, Number]:
        """Draft tokens sent to verify, by drafter."""
        return _sums(((d.value,), proposed * count) for (_, d, proposed, _, _), count in self._read() if proposed)

    def accepted(self) -> dict[Labels, Number]:
        """Of those, accepted."""
        return _sums(((d.value,), n * count) for (_, d, proposed, n, _), count in self._read() if proposed)

    def proposed_at(self) -> dict[Labels, Number]:
        """By place in the block. What was not proposed is unobserved, not rejected."""
        return _sums(((at,), count) for (_, _, proposed, _, _), count in self._read() for at in range(proposed))

    def accepted_at(self) -> dict[Labels, Number]:
        """By place in the block."""
        return _sums(((at,), count) for (_, _, _, accepted, _), count in self._read() for at in range(accepted))

    def _read(self) -> list[tuple[_Kind, int]]:
        return list(self._rounds.items())


def _directions(meters: TierMeters) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("sent", meters.sent), ("received", meters.received)


def _sums(parts: Iterator[tuple[Labels, int]]) -> dict[Labels, Number]:
    sums: dict[Labels, Number] = {}
    for labels, amount in parts:
        sums[labels] = sums.get(labels, 0) + amount
    return sums
