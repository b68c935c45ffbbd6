"""Choices change for gains that stand out, and lengths next to the present one are tried now and then."""

import pytest

from orchestrator.acceptance import through
from orchestrator.choosing import best_length, best_way
from orchestrator.estimates import PoolEstimates
from orchestrator.options import Terms, plain, serial
from orchestrator.plans import Drafter, Situation
from orchestrator.rounds import PLAIN
from outrider.throughput import Costs

SERIAL = (Drafter.MODEL, False)


def terms(draft_s: float, chance: float = 0.6, sessions: int = 1, pool: PoolEstimates | None = None) -> Terms:
    """A target of 10 ms, whatever the rows, no round trips, no looking ahead."""
    costs = Costs(lambda rows: draft_s, lambda rows: 0.01, sessions=sessions)
    chances = (chance,) * 17
    situation = Situation(100, draft_available=True, sessions=sessions, look_ahead_available=False)
    return Terms(pool or PoolEstimates(), situation, costs, chances, through(chances), 100)


def draft_for(gain: float) -> float:
    """Seconds of a draft token for which one of them, right with 0.6, gains so much."""
    return 0.01 * (1.6 / gain - 1)


@pytest.mark.parametrize(("gain", "speculates"), [(1.2, True), (1.06, True), (1.04, False), (0.9, False)])
def test_it_starts_for_a_gain_that_stands_out(gain: float, speculates: bool) -> None:
    best = best_way(terms(draft_for(gain)), (PLAIN, 0))
    assert (best.draft_tokens > 0) is speculates


@pytest.mark.parametrize(("gain", "speculates"), [(1.2, True), (1.0, True), (0.995, True), (0.98, False)])
def test_it_goes_on_until_it_loses(gain: float, speculates: bool) -> None:
    best = best_way(terms(draft_for(gain)), (SERIAL, 1))
    assert (best.draft_tokens > 0) is speculates


def test_among_several_answers_what_was_never_tried_needs_more() -> None:
    pool = PoolEstimates()
    there = terms(draft_for(1.07), sessions=16, pool=pool)
    assert best_way(there, (PLAIN, 0)).draft_tokens == 0
    pool.rounds.note(SERIAL, 1, 16, 1.0, 1.0, 0.0)
    pool.rounds.note(PLAIN, 0, 16, 1.0, 1.0, 0.0)
    assert plain(there).seconds > 0.01, "a second was measured for both"
    assert best_way(terms(draft_for(1.07), sessions=8, pool=pool), (PLAIN, 0)).draft_tokens == 0, "at this load"


def test_a_length_nearby_that_looks_as_good_is_tried_and_then_known() -> None:
    """At 2.5 ms a token with a chance of 0.6 two tokens are the best by little: 1.28, 1.31, 1.24 for 1, 2, 3."""
    pool = PoolEstimates()
    there = terms(0.0025, pool=pool)
    rates = [serial(there, k).rate for k in (1, 2, 3)]
    assert rates[1] > rates[0] > 0.97 * rates[1]
    assert best_way(there, (SERIAL, 1)).draft_tokens == 2
    for _ in range(6):
        pool.rounds.note(SERIAL, 2, 1, 0.015, 0.015, 0.0)
        pool.rounds.note(SERIAL, 1, 1, 0.0125, 0.0125, 0.0)
    assert best_way(there, (SERIAL, 1)).draft_tokens == 1, "known by now: not better by a margin"


def test_an_answer_in_a_regime_keeps_its_length_unless_its_own_is_better_by_a_margin() -> None:
    average, lucky, unlucky = terms(0.001, 0.6, 4), terms(0.001, 0.95, 4), terms(0.001, 0.02, 4)
    best = best_way(average, (PLAIN, 0)).draft_tokens
    assert best_length(average, (SERIAL, best)).draft_tokens == best
    assert best_length(lucky, (SERIAL, best)).draft_tokens > best
    assert best_length(unlucky, (SERIAL, best)).draft_tokens == 0
    assert best_length(lucky, (PLAIN, 0)).draft_tokens == 0, "nobody drafts while the others do not"
