"""What a round could do, and what each choice is worth: expected tokens over expected seconds.

All answers of a target are taken to do alike, so an option's time holds the rows of all of them and its rate is that of
the whole, divided by their number. It compares nothing and remembers nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from orchestrator.estimates import PoolEstimates
from orchestrator.plans import Drafter, Estimates, Situation
from orchestrator.rounds import PLAIN, Kind, formula_s
from outrider.outcomes import hit_rate, ranked, spread
from outrider.throughput import Costs, expected_tokens

_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64)
_OUTCOMES = (32, 16, 8, 4, 2)
_ROWS = 64
"""Most rows that the look-aheads of all answers make a pass of the draft: what more would cost is not known."""
_MOST_HITS = 0.98
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Option:
    """A plan for a round, with the tokens and seconds it is expected to give and take."""

    drafter: Drafter
    draft_tokens: int
    tokens: float
    seconds: float
    fanout: tuple[int, ...] = ()
    covered: float = 0.0
    hit_rate: float = 0.0

    @property
    def kind(self) -> Kind:
        """Who drafts, and whether it looks ahead."""
        return (self.drafter, bool(self.fanout))

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Terms:
    """Everything that options of one answer are weighed by."""

    pool: PoolEstimates
    situation: Situation
    costs: Costs
    chances: tuple[float, ...]
    """Of the model's draft tokens, each given those before; one more than the longest block."""
    acceptance: tuple[float, ...]
    """At positions from 1."""
    horizon: int
    """Tokens that are probably still to come."""

    @property
    def longest(self) -> int:
        """Most draft tokens that a block may have."""
        return max(0, min(self.situation.max_draft_tokens, self.situation.remaining - 1))

    def seconds(self, kind: Kind, k: int) -> float:
        """Of such a round, as measured or else by the formula."""

        def formula(sessions: int) -> float:
            costs = self.costs if sessions == self.costs.sessions else replace(self.costs, sessions=sessions)
            return formula_s(kind, k, costs)

        return self.pool.rounds.seconds(kind, k, self.costs.sessions, formula, self.pool.now)

    def reading_s(self, tokens: float) -> float:
        """What the draft's reading of the text costs a round, spread over the tokens that are still to come."""
        whole = self.pool.timings.reading_s(self.situation.draft_behind, self.costs, self.pool.now)
        return whole * min(1.0, tokens / self.horizon)


def lengths(most: int) -> Iterator[int]:
    """Numbers of draft tokens worth comparing, ``most`` the largest of them."""
    yield from (k for k in _LENGTHS if k < most)
    if most > 0:
        yield most


def plain(terms: Terms) -> Option:
    """A token of the target's own, in a run."""
    return Option(Drafter.NONE, 0, 1.0, terms.seconds(PLAIN, 0))


def serial(terms: Terms, k: int) -> Option:
    """A block of the draft model, then its verdict."""
    tokens = expected_tokens(terms.acceptance, k)
    return Option(Drafter.MODEL, k, tokens, terms.seconds((Drafter.MODEL, False), k) + terms.reading_s(tokens))


def ahead(terms: Terms, k: int) -> Option | None:
    """The draft prepares the next block meanwhile, for the number of outcomes that is worth most. What is not ready
    when the verdict comes is waited for, as long again at most and by an answer that has the draft to itself: where
    several share it, who is late makes the others later. None where it would take longer even for few."""
    verdict = terms.seconds((Drafter.MODEL, True), k)
    likeliest = ranked(terms.chances[: k + 1], terms.pool.coverage.curve(), _OUTCOMES[0])
    counts = [count for count in _OUTCOMES if count * terms.costs.sessions <= _ROWS or count == _OUTCOMES[-1]]
    late = {count: _preparing_s(terms, k, count) - verdict for count in counts}
    options = (_prepared(terms, k, likeliest[:count], verdict, max(0.0, late[count])) for count in late)
    latest = verdict if terms.costs.sessions == 1 else 0.0
    soon = (option for option in options if late[sum(option.fanout)] <= latest)
    return max(soon, key=lambda option: option.rate, default=None)


def _preparing_s(terms: Terms, k: int, outcomes: int) -> float:
    """Seconds from asking the draft to look ahead to its answer."""
    multiple = terms.pool.hits.preparing(terms.costs.sessions, outcomes, terms.pool.now)
    return multiple * terms.costs.prepare_s(k, outcomes)


def _prepared(terms: Terms, k: int, likeliest: list[tuple[float, int]], verdict: float, late: float) -> Option:
    """Looking ahead for these outcomes, ready so many seconds later than the verdict."""
    pool, costs, sessions = terms.pool, terms.costs, terms.costs.sessions
    tokens, covered = expected_tokens(terms.acceptance, k), hit_rate(likeliest)
    hits = min(_MOST_HITS, covered * pool.hits.multiple(k, sessions, pool.now))
    again = costs.propose_s(k) * pool.hits.again(sessions, pool.now)
    seconds = verdict + hits * late + (1 - hits) * again + terms.reading_s(tokens)
    return Option(Drafter.MODEL, k, tokens, seconds, spread(likeliest, k), covered, hits)


def copied(terms: Terms, acceptance: tuple[float, ...], each: int = 1, lost_s: float = 0.0) -> Option:
    """The best block of the n-gram drafter, which costs no time; ``acceptance`` is its own, of all that it offers.

    One answer copies where the others, whose passes hold ``each`` of their rows, do as before: their passes wait for
    its rows and for its return, which is part of its price. ``lost_s`` pass before it can be looked at.
    """

    def of(k: int) -> Option:
        seconds = lost_s + _copying_s(terms, k, each)
        return Option(Drafter.NGRAM, k, expected_tokens(acceptance, k), seconds)

    return max(map(of, lengths(len(acceptance))), key=lambda option: option.rate)


def _copying_s(terms: Terms, k: int, each: int) -> float:
    """Seconds of the verdict on a copy, and of what the others wait for it."""
    costs, pool = terms.costs, terms.pool

    def formula(sessions: int) -> float:
        return costs.rtt_target_s + costs.target_s((sessions - 1) * each + 1 + k)

    own = pool.rounds.seconds((Drafter.NGRAM, False), k, costs.sessions, formula, pool.now)
    delay = formula(costs.sessions) - costs.target_s(costs.sessions * each)
    return own + (costs.sessions - 1) * max(0.0, delay)


def explain(terms: Terms, alone: Option, chosen: Option) -> Estimates:
    """What a choice was made from, for whoever looks at the round."""
    k, costs = chosen.draft_tokens, terms.costs
    return Estimates(
        chosen_rate=chosen.rate,
        plain_rate=alone.rate,
        acceptance=terms.acceptance[: max(1, min(k, _SHOWN))],
        hit_rate=chosen.hit_rate,
        draft_s=costs.draft_s(costs.sessions),
        verify_s=costs.verify_s(k),
        rtt_draft_s=costs.rtt_draft_s,
        rtt_target_s=costs.rtt_target_s,
    )
