"""Look-ahead's hits against what was expected of it: at once at first, slowly forgotten, per length and load."""

import random

import pytest

from orchestrator.hits import Hits


def test_before_anything_was_seen_it_is_as_good_as_expected() -> None:
    assert Hits().multiple(3, 1, 0.0) == 1.0


@pytest.mark.parametrize("share", [0.0, 0.5, 1.2])
def test_the_multiple_is_learned(share: float) -> None:
    """False alarm: 0.08 is more than four standard errors of 2 000 hits at a chance of 0.6 at most."""
    hits, luck = Hits(), random.Random(4)
    for _ in range(2000):
        hits.note(3, 1, 0.5, luck.random() < share * 0.5, 0.0)
    assert hits.multiple(3, 1, 0.0) == pytest.approx(share, abs=0.08)
    assert hits.multiple(4, 1, 0.0) == pytest.approx(share, abs=0.08), "other lengths are taken to be alike"
    assert hits.multiple(3, 2, 0.0) == 1.0, "and other loads are not"
    assert hits.multiple(3, 1, 200_000.0) == pytest.approx(1.0, abs=0.01)


def test_lengths_that_are_too_late_are_told_from_those_in_time() -> None:
    hits = Hits()
    for _ in range(100):
        hits.note(2, 1, 0.8, True, 0.0)
        hits.note(8, 1, 0.8, False, 0.0)
    assert hits.multiple(2, 1, 0.0) > 1.1
    assert hits.multiple(8, 1, 0.0) < 0.1


def test_asking_again_costs_what_it_cost() -> None:
    hits = Hits()
    assert hits.again(16, 0.0) == 1.0
    for _ in range(200):
        hits.note_again(16, 1.6, 0.0)
    assert hits.again(16, 0.0) == pytest.approx(1.6, abs=0.06)
    assert hits.again(1, 0.0) == 1.0


def test_the_time_of_preparing_is_learned_per_load() -> None:
    hits = Hits()
    assert hits.preparing(4, 16, 0.0) == 1.0
    for _ in range(100):
        hits.note_preparing(4, 16, 2.0, 0.0)
        hits.note_preparing(4, 8, 1.2, 0.0)
    assert hits.preparing(4, 16, 0.0) == pytest.approx(2.0, abs=0.1)
    assert hits.preparing(4, 8, 0.0) == pytest.approx(1.2, abs=0.1), "and per number of outcomes"
    assert hits.preparing(4, 2, 0.0) == pytest.approx(1.6, abs=0.1), "what was not tried is like the rest"
    assert hits.preparing(1, 16, 0.0) == 1.0
