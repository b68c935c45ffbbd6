"""What ways are worth: the shared formulas, no block longer than allowed, no look-ahead that would be far too late."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.acceptance import through
from orchestrator.estimates import PoolEstimates
from orchestrator.options import Terms, ahead, copied, explain, lengths, plain, serial
from orchestrator.plans import Drafter, Situation
from outrider import throughput
from outrider.throughput import Costs

DRAFT_S, TARGET_S, TRIP_S = 0.001, 0.02, 0.0005


def terms(
    chance: float = 0.7, sessions: int = 1, draft_s: float = DRAFT_S, behind: int = 1, horizon: int = 100
) -> Terms:
    """A pool that has measured nothing, so that the formulas stand by themselves."""
    costs = Costs(lambda rows: draft_s, lambda rows: TARGET_S, TRIP_S, TRIP_S, sessions)
    situation = Situation(100, draft_available=True, sessions=sessions, draft_behind=behind)
    chances = (chance,) * 17
    return Terms(PoolEstimates(), situation, costs, chances, through(chances), horizon)


@given(st.floats(0.0, 1.0), st.integers(1, 64), st.integers(1, 16))
def test_unmeasured_ways_are_worth_what_the_plan_command_says(chance: float, sessions: int, k: int) -> None:
    there = terms(chance, sessions)
    assert plain(there).rate == pytest.approx(throughput.off(there.costs))
    assert serial(there, k).rate == pytest.approx(throughput.serial(there.costs, there.acceptance, k))


def test_looking_ahead_without_hits_is_worth_what_one_after_another_is() -> None:
    there = terms()
    for _ in range(2000):
        there.pool.hits.note(4, 1, 1.0, False, 0.0)
    option = ahead(there, 4)
    assert option is not None
    assert option.rate == pytest.approx(serial(there, 4).rate, rel=0.01)
    fresh = ahead(terms(), 4)
    assert fresh is not None
    assert fresh.rate > 1.1 * option.rate, "and more with those that are expected"


@given(st.integers(1, 16), st.floats(0.0001, 0.05), st.integers(1, 16))
def test_what_is_prepared_is_not_too_late(k: int, draft_s: float, sessions: int) -> None:
    """In twice the time of the verdict where an answer has the draft to itself, in its time where several share it."""
    latest = 2 if sessions == 1 else 1
    there = terms(draft_s=draft_s, sessions=sessions)
    option = ahead(there, k)
    if option is None:
        assert there.costs.prepare_s(k, 2) > latest * there.costs.verify_s(k), "not even for two outcomes"
    else:
        assert len(option.fanout) == k + 1
        assert there.costs.prepare_s(k, sum(option.fanout)) <= latest * there.costs.verify_s(k)
        assert 0.0 < option.hit_rate <= 1.0


@given(st.integers(-3, 80))
def test_lengths_rise_to_the_longest_allowed_one(most: int) -> None:
    counts = list(lengths(most))
    assert counts == sorted(set(counts))
    assert all(0 < count <= most for count in counts)
    assert (counts[-1:] == [most]) is (most > 0)


@given(st.integers(0, 40), st.integers(0, 40))
def test_no_block_is_longer_than_what_may_still_be_emitted(remaining: int, limit: int) -> None:
    there = terms()
    bounded = Terms(
        there.pool, Situation(remaining, max_draft_tokens=limit), there.costs, there.chances, there.acceptance, 1
    )
    assert 0 <= bounded.longest <= limit
    assert bounded.longest < max(1, remaining)


def test_reading_a_long_text_is_spread_over_what_is_still_to_come() -> None:
    free = serial(terms(), 4).seconds
    extra = [serial(terms(behind=2000, horizon=horizon), 4).seconds - free for horizon in (1, 100, 200)]
    assert extra[0] > extra[1] > 0
    assert extra[1] == pytest.approx(2 * extra[2])


def test_copies_cost_no_drafting() -> None:
    there = terms()
    best = copied(there, (0.9,) * 4)
    assert best.draft_tokens == 4
    assert best.tokens == pytest.approx(4.6)
    assert best.seconds == pytest.approx(there.costs.verify_s(4))
    assert copied(there, (0.9,) * 4, lost_s=1.0).seconds == pytest.approx(1.0 + there.costs.verify_s(4))


def test_others_wait_for_a_copy_and_for_who_made_it() -> None:
    """Four answers whose passes take a millisecond a row: each of the other three waits for four rows more, and for a
    round trip. In the company of blocks of four its rows are no more than those of the others."""
    alone = terms(sessions=4)
    costs = replace(alone.costs, target_s=lambda rows: 0.02 + 0.001 * rows)
    there = replace(alone, costs=costs)
    own = TRIP_S + costs.target_s(8)
    assert copied(there, (0.99,) * 4).seconds == pytest.approx(own + 3 * (0.004 + TRIP_S))
    among_blocks = TRIP_S + costs.target_s(20)
    assert copied(there, (0.99,) * 4, each=5).seconds == pytest.approx(among_blocks + 3 * TRIP_S)


def test_no_more_is_copied_than_is_likely() -> None:
    assert copied(terms(), (0.9, 0.9, 0.0, 0.0)).draft_tokens == 2


def test_an_explanation_names_both_rates_and_the_acceptance_up_to_the_length() -> None:
    there = terms()
    option = serial(there, 3)
    told = explain(there, plain(there), option)
    assert (told.chosen_rate, told.plain_rate) == (option.rate, plain(there).rate)
    assert told.acceptance == there.acceptance[:3]
    assert (told.draft_s, told.rtt_draft_s, told.rtt_target_s) == (DRAFT_S, TRIP_S, TRIP_S)
    assert option.kind == (Drafter.MODEL, False)
