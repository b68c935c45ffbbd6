"""What an answer believes begins with its pool, follows what the answer shows, and leaves the pool alone."""

import pytest

from orchestrator.beliefs import Beliefs
from orchestrator.estimates import PoolEstimates
from orchestrator.plans import Drafter, Observation, Plan, Situation

PLAN = Plan(Drafter.MODEL, 4)


def seen(accepted: int, plan: Plan = PLAN) -> Observation:
    return Observation(plan=plan, proposed=plan.draft_tokens, accepted=accepted, emitted=accepted + 1, verify_s=0.01)


def test_an_answer_that_has_shown_nothing_believes_its_pool() -> None:
    pool = PoolEstimates()
    for accepted in (0, 1, 2, 3, 4) * 10:
        pool.acceptance.note(4, accepted, 0.0)
    assert Beliefs(pool).chances(5) == pytest.approx(pool.acceptance.chances(5, 0.0))


def test_what_one_answer_shows_bends_its_own_belief_only() -> None:
    pool = PoolEstimates()
    poor, rich, fresh = Beliefs(pool), Beliefs(pool), Beliefs(pool)
    for _ in range(40):
        poor.note(seen(0), Situation(100))
        rich.note(seen(4), Situation(100))
    assert poor.chances(1)[0] < 0.15
    assert rich.chances(1)[0] > 0.9
    assert fresh.chances(4) == pytest.approx(pool.acceptance.chances(4, 0.0))


def test_drafters_and_lengths_of_a_match_are_told_apart() -> None:
    """What a long match shows says nothing of the draft model, nor of short ones."""
    beliefs = Beliefs(PoolEstimates())
    model, short = beliefs.chances(2), beliefs.copied(2, 2)
    for _ in range(40):
        beliefs.note(seen(4, Plan(Drafter.NGRAM, 4)), Situation(100, ngram_match=16))
    assert beliefs.chances(2) == model
    assert beliefs.copied(2, 2) == short
    assert beliefs.copied(16, 2)[0] > 0.9


def test_an_answer_that_does_not_copy_leaves_it_sooner_than_its_pool() -> None:
    pool = PoolEstimates()
    beliefs, others = Beliefs(pool), Beliefs(pool)
    for _ in range(4):
        beliefs.note(seen(0, Plan(Drafter.NGRAM, 4)), Situation(100, ngram_match=4))
    assert beliefs.copied(4, 1)[0] < 0.5 * others.copied(4, 1)[0]


def test_a_plain_round_says_nothing_about_drafts() -> None:
    beliefs = Beliefs(PoolEstimates())
    before = beliefs.chances(4)
    for _ in range(40):
        beliefs.note(seen(0, Plan()), Situation(100))
    assert beliefs.chances(4) == before


def test_terms_are_the_answers_own_or_those_of_the_average_one() -> None:
    pool = PoolEstimates()
    beliefs, there = Beliefs(pool), Situation(1000, max_draft_tokens=8)
    for _ in range(40):
        beliefs.note(seen(0), there)
    own, average = beliefs.terms(there, 0), beliefs.terms(there, 0, own=False)
    assert own.chances[0] < 0.15 < average.chances[0]
    assert len(own.chances) == len(average.chances) == 9, "one more than the longest block"
    assert list(own.acceptance) == sorted(own.acceptance, reverse=True)


@pytest.mark.parametrize(("remaining", "emitted", "horizon"), [(1000, 0, 32), (1000, 200, 200), (10, 200, 10)])
def test_as_much_is_to_come_as_has_come_within_what_may(remaining: int, emitted: int, horizon: int) -> None:
    assert Beliefs(PoolEstimates()).terms(Situation(remaining), emitted).horizon == horizon
