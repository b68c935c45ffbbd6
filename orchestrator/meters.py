"""The numbers of one orchestrator, by the definitions of the README: what rounds, exchanges and requests add to them.

It knows what is counted, not why anything happened.
"""

from collections.abc import Iterator, Mapping

from orchestrator.plans import Drafter
from orchestrator.totals import Round
from outrider import semconv
from outrider.instruments import Counter, Histogram, Instrument, Labels, Number, Reading


class Meters:
    """Owner of the counts. Per round they cost about two microseconds: blocks are counted by (drafter, proposed,
    accepted), and everything else about them is worked out when it is read."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[Drafter, int, int], int] = {}
        self.rounds = Counter(semconv.M_ROUNDS)
        self.emitted = Counter(semconv.M_EMITTED)
        self.round_s = Histogram(semconv.M_ROUND)
        self.look_aheads = Counter(semconv.M_LOOK_AHEADS)
        self.wasted = Counter(semconv.M_WASTED)
        self.exchange_s = Histogram(semconv.M_EXCHANGE)
        self.network_s = Histogram(semconv.M_NETWORK)
        self.bytes = Counter(semconv.M_BYTES)
        self.misses = Counter(semconv.M_MISSES)
        self.failovers = Counter(semconv.M_FAILOVERS)
        self.faults = Counter(semconv.M_FAULTS)
        self.requests = Counter(semconv.M_REQUESTS)
        self.refusals = Counter(semconv.M_REFUSALS)
        self.prompt = Counter(semconv.M_PROMPT)
        self.cached = Counter(semconv.M_CACHED)
        self.request_s = Histogram(semconv.M_REQUEST)
        self.queue_s = Histogram(semconv.M_QUEUE)
        self.ttft_s = Histogram(semconv.M_TTFT)
        self.tpot_s = Histogram(semconv.M_TPOT)

    def instruments(self) -> list[Instrument]:
        """All of them."""
        made = [each for each in vars(self).values() if isinstance(each, Counter | Histogram)]
        derived = [
            Reading(semconv.M_DRAFTS, lambda: {(): self.drafts}),
            Reading(semconv.M_PROPOSED, self.proposed),
            Reading(semconv.M_ACCEPTED, self.accepted),
            Reading(semconv.M_PROPOSED_AT, self.proposed_at),
            Reading(semconv.M_ACCEPTED_AT, self.accepted_at),
        ]
        return [*made, *derived]

    def round(self, done: Round) -> None:
        """A round is over."""
        mode, proposed = done.mode, len(done.block)
        self.rounds.add(1, mode, proposed)
        self.emitted.add(len(done.emitted), mode)
        self.round_s.record((done.propose_us + done.verify_us) / 1e6, mode)
        if proposed:
            key = (done.drafter, proposed, done.num_accepted)
            self._blocks[key] = self._blocks.get(key, 0) + 1
        if done.hit is not None:
            self.look_aheads.add(1, "hit" if done.hit else "miss")
        if done.wasted:
            self.wasted.add(done.wasted)

    def exchange(self, tier: str, took_s: float, network_us: int | None, sent: int, received: int) -> None:
        """A message was answered. No network time in a run: nobody can tell it there."""
        self.exchange_s.record(took_s, tier)
        if network_us is not None:
            self.network_s.record(network_us / 1e6, tier)
        self.bytes.add(sent, tier, "sent")
        self.bytes.add(received, tier, "received")

    @property
    def drafts(self) -> int:
        """Rounds with draft tokens."""
        return sum(count for _, count in self._read())

    def proposed(self) -> Mapping[Labels, Number]:
        """Draft tokens sent to verify, by drafter."""
        return _sums(((drafter.value,), proposed * count) for (drafter, proposed, _), count in self._read())

    def accepted(self) -> Mapping[Labels, Number]:
        """Of those, accepted."""
        return _sums(((drafter.value,), accepted * count) for (drafter, _, accepted), count in self._read())

    def proposed_at(self) -> Mapping[Labels, Number]:
        """By place in the block. What was not proposed is unobserved, not rejected."""
        return _sums(((place,), count) for (_, proposed, _), count in self._read() for place in range(proposed))

    def accepted_at(self) -> Mapping[Labels, Number]:
        """By place in the block."""
        return _sums(((place,), count) for (_, _, accepted), count in self._read() for place in range(accepted))

    def _read(self) -> list[tuple[tuple[Drafter, int, int], int]]:
        return list(self._blocks.items())


def _sums(parts: Iterator[tuple[Labels, int]]) -> dict[Labels, Number]:
    sums: dict[Labels, Number] = {}
    for labels, amount in parts:
        sums[labels] = sums.get(labels, 0) + amount
    return sums
