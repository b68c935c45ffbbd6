"""Outcomes to prepare for: the likeliest come first, and their chances are those of the model that is simulated."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.outcomes import MOST_EACH, USUAL_COVERAGE, hit_rate, ranked, spread

CHANCES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=9)


@given(CHANCES, st.integers(1, 64))
def test_the_likeliest_come_first_within_the_limits(chances: list[float], most: int) -> None:
    outcomes = ranked(chances, USUAL_COVERAGE, most)
    assert len(outcomes) == min(most, MOST_EACH * len(chances))
    rates = [chance for chance, _ in outcomes]
    if chances[-1] >= 0.5:  # else the draft's own next token, unlikely as it is, comes before its others
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(rates))
    fanout = spread(outcomes, len(chances) - 1)
    assert sum(fanout) == len(outcomes)
    assert all(0 <= count <= MOST_EACH for count in fanout)
    assert 0.0 <= hit_rate(outcomes) <= 1.0


def test_a_draft_that_is_always_right_prepares_for_that_alone() -> None:
    outcomes = ranked([1.0, 1.0, 1.0], USUAL_COVERAGE, 1)
    assert spread(outcomes, 2) == (0, 0, 1)
    assert hit_rate(outcomes) == 1.0


def test_a_draft_that_is_never_right_prepares_for_rejection_at_once() -> None:
    outcomes = ranked([0.0, 0.0, 0.0], USUAL_COVERAGE, 8)
    assert spread(outcomes, 2) == (8, 0, 0)
    assert hit_rate(outcomes) == pytest.approx(USUAL_COVERAGE[8])


def test_hit_rates_are_those_of_a_simulation() -> None:
    """20 000 verdicts under the model; false alarm: 0.015 is more than four standard errors."""
    chances, luck = [0.7, 0.6, 0.5, 0.6], random.Random(3)
    outcomes = ranked(chances, USUAL_COVERAGE, 12)
    fanout, hits = spread(outcomes, 3), 0
    for _ in range(20_000):
        accepted = next((n for n in range(3) if luck.random() >= chances[n]), 3)
        candidates = fanout[accepted]
        if accepted == 3 and candidates and luck.random() < chances[3]:
            hits += 1
            continue
        hits += luck.random() < USUAL_COVERAGE[max(0, candidates - (accepted == 3))]
    assert hits / 20_000 == pytest.approx(hit_rate(outcomes), abs=0.015)
