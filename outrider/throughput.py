"""What speculation gains: the formulas that the controller and ``outrider plan`` share. Pure numbers.

Times are seconds, rates are tokens per second of one session. *Acceptance at position i* is the share of the rounds
which proposed at i whose token i was accepted (README, Definitions); that includes the positions before it, so it
never rises with i. All sessions of a target are taken to do alike: each of its passes holds the rows of all of them.
After Leviathan et al. (arXiv 2211.17192) for a round one after another, and arXiv 2603.03251 for looking ahead.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

Seconds = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Costs:
    """What rounds of one pair cost."""

    draft_s: Seconds
    """Pass of the draft with so many rows."""
    target_s: Seconds
    """Pass of the target with so many rows."""
    rtt_draft_s: float = 0.0
    """Round trip to the draft."""
    rtt_target_s: float = 0.0
    """Round trip to the target."""
    sessions: int = 1
    """Sessions that share both, this one included."""

    def plain_s(self) -> float:
        """A token of the target alone, in a run that needs no round trip: target(S)."""
        return self.target_s(self.sessions)

    def propose_s(self, k: int) -> float:
        """A block of k: rtt_draft + k draft(S)."""
        return self.rtt_draft_s + k * self.draft_s(self.sessions)

    def verify_s(self, k: int) -> float:
        """The verdict on it: rtt_target + target(S (1 + k))."""
        return self.rtt_target_s + self.target_s(self.sessions * (1 + k))

    def prepare_s(self, k: int, outcomes: int) -> float:
        """Blocks of k after so many outcomes of a verdict: rtt_draft + draft(S) + k draft(S outcomes).

        One pass reads the last token of the block in flight, the others take all branches a token further.
        """
        return self.rtt_draft_s + self.draft_s(self.sessions) + k * self.draft_s(self.sessions * outcomes)


def even_acceptance(chance: float, k: int) -> tuple[float, ...]:
    """Acceptance at positions 1 to k when each token is right with the same ``chance``: chance ** i."""
    return tuple(chance**position for position in range(1, k + 1))


def expected_tokens(acceptance: Sequence[float], k: int) -> float:
    """Tokens of a round that proposes k: 1 + the sum of the acceptance at positions 1 to k.

    Positions without a number count as never accepted.
    """
    return 1.0 + sum(acceptance[:k])


def off(costs: Costs) -> float:
    """Tokens/s of the target alone: 1 / target(S)."""
    return 1.0 / costs.plain_s()


def serial(costs: Costs, acceptance: Sequence[float], k: int) -> float:
    """Tokens/s of propose, then verify: E(k) / (propose(k) + verify(k)); ``off`` for k = 0."""
    return expected_tokens(acceptance, k) / (costs.propose_s(k) + costs.verify_s(k)) if k else off(costs)


def look_ahead(costs: Costs, acceptance: Sequence[float], k: int, hit_rate: float, outcomes: int) -> float:
    """Tokens/s of preparing the next block while one is verified:
    E(k) / (verify(k) + hit_rate max(0, prepare(k, outcomes) - verify(k)) + (1 - hit_rate) propose(k)).

    ``hit_rate`` is the chance that one of the ``outcomes`` prepared is the one that comes. What is not ready when the
    verdict comes is waited for, and asked for at the same time in case it is not among them.
    """
    late = max(0.0, costs.prepare_s(k, outcomes) - costs.verify_s(k))
    spent = costs.verify_s(k) + hit_rate * late + (1 - hit_rate) * costs.propose_s(k)
    return expected_tokens(acceptance, k) / spent


def serial_break_even_s(costs: Costs, acceptance: Sequence[float], k: int) -> float:
    """Round trip to either service at which ``serial`` gives what ``off`` does; negative: it loses without any.

    From E(k) target(S) = 2 r + k draft(S) + target(S (1 + k)).
    """
    spent = k * costs.draft_s(costs.sessions) + costs.target_s(costs.sessions * (1 + k))
    return (expected_tokens(acceptance, k) * costs.plain_s() - spent) / 2


def look_ahead_break_even_s(costs: Costs, acceptance: Sequence[float], k: int, hit_rate: float, outcomes: int) -> float:
    """The same for ``look_ahead``, at equal round trips r, which it waits for no later than for the verdict's:
    E(k) target(S) = r + target(S (1 + k)) + hit_rate late + (1 - hit_rate) (r + k draft(S))."""
    here = replace(costs, rtt_draft_s=0.0, rtt_target_s=0.0)
    late = max(0.0, here.prepare_s(k, outcomes) - here.verify_s(k))
    spent = here.verify_s(k) + hit_rate * late + (1 - hit_rate) * here.propose_s(k)
    return (expected_tokens(acceptance, k) * costs.plain_s() - spent) / (2 - hit_rate)


def draft_replicas(costs: Costs, k: int, ahead: tuple[float, int] | None = None) -> int:
    """Draft replicas that keep one target busy: the draft's time over the target's per round of all sessions,
    k draft(S) / target(S (1 + k)), rounded up.

    ``ahead`` is (hit_rate, outcomes) when looking ahead: then the draft's time is
    draft(S) + k draft(S outcomes) + (1 - hit_rate) k draft(S).
    """
    alone = costs.draft_s(costs.sessions)
    busy = k * alone
    if ahead is not None:
        hit_rate, outcomes = ahead
        busy = alone + k * costs.draft_s(costs.sessions * outcomes) + (1 - hit_rate) * k * alone
    return math.ceil(busy / costs.target_s(costs.sessions * (1 + k)) - 1e-9)
