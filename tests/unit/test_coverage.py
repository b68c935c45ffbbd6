"""How far down the draft's choices the target's token stands is learned, and never believed to be certain."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.coverage import Coverage
from outrider.outcomes import MOST_EACH, USUAL_COVERAGE, coverage


def test_before_anything_was_seen_it_is_about_as_usual() -> None:
    assert Coverage().curve() == pytest.approx(USUAL_COVERAGE, abs=0.06)


@pytest.mark.parametrize("shape", [0.3, 0.7, 2.0])
def test_the_curve_is_learned(shape: float) -> None:
    """From 1 to 8 candidates. False alarm: 400 trials tell these shapes apart with odds of more than a million."""
    learned, luck, true = Coverage(), random.Random(5), coverage(shape)
    for trial in range(400):
        candidates = 1 + trial % 8
        learned.note(candidates, luck.random() < true[candidates], 0.0)
    assert learned.curve() == pytest.approx(true, abs=0.1)


def test_what_is_old_is_forgotten() -> None:
    learned = Coverage()
    for _ in range(200):
        learned.note(2, False, 0.0)
    for _ in range(20):
        learned.note(2, True, 50_000.0)
    assert learned.curve()[2] > USUAL_COVERAGE[2]


def test_no_candidates_say_nothing() -> None:
    learned, fresh = Coverage(), Coverage()
    learned.note(0, False, 3.0)
    assert learned.curve() == fresh.curve()


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60))
def test_more_candidates_never_cover_less(seen: list[tuple[int, bool]]) -> None:
    learned = Coverage()
    for now, (candidates, right) in enumerate(seen):
        learned.note(candidates, right, float(now))
    curve = learned.curve()
    assert len(curve) == MOST_EACH + 1
    assert curve[0] == 0.0
    assert all(0 <= less <= more <= 1 for less, more in pairwise(curve))
