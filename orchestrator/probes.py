"""What one answer does to learn rather than because it is best: small blocks where nothing is drafted, and plain rounds
where everything is. It pays from the pool's budget and chooses nothing else.
"""

from dataclasses import replace

from orchestrator.estimates import PoolEstimates
from orchestrator.options import Option, Terms, serial
from orchestrator.plans import Observation
from orchestrator.rounds import PLAIN
from outrider.throughput import Costs

LOOK_TOKENS = 8.0
"""Tokens that each answer makes alone in a look at the target alone."""
_LENGTHS = (1, 2, 4, 8)
_LEAST_PRICE = 0.1
_FREE_READING = 0.01
"""Of the time in which tokens were made, what reading them costs the draft without being charged to probes."""
_ENOUGH_ROUNDS, _SURE_GAIN = 8.0, 0.8
"""Recent plain rounds that must be known where speculation seems to gain little; where it gains much, fewer do."""


class Probes:
    """One answer's probes. At most one is out at a time."""

    def __init__(self, pool: PoolEstimates) -> None:
        self._pool = pool
        self._plain_s = 1.0
        self._expected = 0.0
        self._free_s = 0.0

    def block(self, terms: Terms, alone: Option, emitted: int) -> Option | None:
        """A small block of the draft model, where that can be paid for; the first of a pool has one token. The answer
        has ``emitted`` so many tokens by now."""
        pool, situation = self._pool, terms.situation
        known = situation.sessions == 1 or pool.plain_known(situation.sessions)
        if not (known and situation.draft_available and terms.longest):
            return None
        counts = [k for k in _LENGTHS if k <= terms.longest] if pool.timings.draft_known else [1]
        option = max((serial(terms, k) for k in counts), key=lambda option: option.rate)
        expected = option.tokens - 1
        reading = pool.timings.reading_s(situation.draft_behind, terms.costs, pool.now)
        free = min(reading, _FREE_READING * min(emitted, situation.draft_behind) * alone.seconds)
        took = _round_s(terms.costs, option.draft_tokens) + reading - free
        if not pool.budget.allows(max(_LEAST_PRICE, took / alone.seconds - 1 - expected), pool.now):
            return None
        pool.budget.start(pool.now)
        self._plain_s, self._expected, self._free_s = alone.seconds, expected, free
        return option

    def came_back(self, seen: Observation) -> None:
        """The block was judged."""
        took = seen.took_s - self._free_s
        loss = max(_LEAST_PRICE, took / self._plain_s - 1 - self._expected)
        self._pool.budget.settle(loss, seen.accepted - self._expected, self._pool.now)

    def look_at_plain(self, chosen: Option, alone: Option, sessions: int) -> bool:
        """Whether all answers should do plain rounds now, to see what those cost; ``chosen`` is what is done else."""
        pool = self._pool
        if pool.regimes.looking(pool.now):
            return True
        if not pool.regimes.may_look(pool.now):
            return False
        gain = max(0.0, chosen.rate * alone.seconds - 1)
        enough = min(_ENOUGH_ROUNDS, _SURE_GAIN / max(gain, 0.01))
        price = LOOK_TOKENS * sessions * gain
        if pool.rounds.weight(PLAIN, 0, sessions, pool.now) >= enough or not pool.budget.allows(price, pool.now):
            return False
        pool.budget.pay(price)
        pool.regimes.look(LOOK_TOKENS, pool.now)
        return True


def _round_s(costs: Costs, k: int) -> float:
    """Seconds of a round with a block that one answer alone makes."""
    passes = costs.rtt_target_s + costs.target_s(costs.sessions + k)
    return replace(costs, sessions=1).propose_s(k) + passes
