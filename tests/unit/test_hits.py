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
    assert hits.multiple(4, 1, 0.0) == hits.multiple(3, 2, 0.0) == 1.0, "not of other lengths and loads"
    assert hits.multiple(3, 1, 100_000.0) == pytest.approx(1.0, abs=0.01)
