"""Learned numbers: noise is averaged, one odd measurement changes nothing, a real change is known after two, and what
is old gives way to a single new one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decay import Counts, Level


def level(*values: float, half_life: float = 100.0) -> Level:
    made = Level(half_life)
    for value in values:
        made.note(value, 0.0)
    return made


def test_it_is_the_mean_while_nothing_is_old() -> None:
    assert level(1.0, 1.1, 0.9, 1.2).value == pytest.approx(1.05)


def test_one_delayed_measurement_changes_nothing() -> None:
    made = level(1.0, 1.0, 1.0, 50.0)
    assert made.value == 1.0
    made.note(1.0, 0.0)
    made.note(50.0, 0.0)
    assert made.value == 1.0, "the second one stands alone too: a usual one came in between"


def test_two_far_off_on_the_same_side_replace_what_was_known() -> None:
    assert level(*[0.004] * 20, 0.2, 0.2).value == pytest.approx(0.2)
    assert level(*[0.2] * 20, 0.004, 0.006).value == pytest.approx(0.005)
    assert level(*[1.0] * 20, 9.0, 0.1).value == 1.0, "too long and too short are no agreement"


def test_many_reports_of_one_event_are_one_measurement() -> None:
    """Sixteen sessions report the same delayed pass."""
    made = level(*[1.0] * 8)
    for _ in range(16):
        made.note(5.0, 0.0, weight=1 / 16)
    assert made.value == 1.0
    made.note(5.0, 0.0, weight=1 / 16)
    assert made.value == pytest.approx(5.0), "and the next pass took as long"


def test_what_is_old_gives_way_to_a_single_measurement() -> None:
    made = level(*[1.0] * 16)
    made.note(9.0, 500.0)
    assert made.value > 5.0
    assert made.weight(500.0) == pytest.approx(1.5)


@given(st.lists(st.floats(0.6, 1.4), min_size=1, max_size=40), st.floats(0.0, 1000.0))
def test_it_stays_among_its_measurements_and_never_weighs_more_than_it_may(values: list[float], now: float) -> None:
    made = level(*values)
    assert min(values) - 1e-9 <= made.value <= max(values) + 1e-9
    assert made.weight(now) <= 16.0 + 1e-9
    assert min(made.value, 5.0) - 1e-9 <= made.blend(5.0, 2.0, now) <= 5.0


def test_shares_are_drawn_to_what_was_believed_before() -> None:
    counts = Counts(half_life=10.0)
    assert counts.share(0, 0.6, 2.0, 0.0) == 0.6
    for _ in range(8):
        counts.add([1.0], [1.0], 0.0)
    assert counts.share(0, 0.6, 2.0, 0.0) == pytest.approx(9.2 / 10)
    assert counts.share(0, 0.6, 2.0, 10.0) == pytest.approx((4 + 1.2) / 6), "half of it is forgotten"
    assert counts.share(3, 0.6, 2.0, 0.0) == 0.6
    assert counts.trials(0, 20.0) == pytest.approx(2.0)
    assert counts.trials(3, 0.0) == 0.0
