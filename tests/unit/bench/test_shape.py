"""What a line does to bytes, by arithmetic alone: no piece early, none overtaken, all at once on their way."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.shape import Line, Shape

SHAPES = st.builds(
    Shape,
    delay_s=st.floats(0, 0.2),
    jitter_s=st.floats(0, 0.1),
    bytes_per_s=st.one_of(st.just(0.0), st.floats(1e3, 1e9)),
    seed=st.integers(0, 99),
)
ARRIVALS = st.lists(st.tuples(st.floats(0, 0.1), st.integers(0, 10_000)), min_size=1, max_size=40)


@given(SHAPES, ARRIVALS)
def test_no_piece_is_early_or_overtaken_or_faster_than_the_line(
    shape: Shape, arrivals: list[tuple[float, int]]
) -> None:
    line, now, last = Line(shape, "a"), 100.0, 0.0
    sent, busy_since = 0, 100.0
    for pause, size in arrivals:
        now += pause
        due = line.due(now, size)
        assert due >= now + shape.delay_s - 1e-9
        assert due >= last
        sent += size
        if shape.bytes_per_s:
            assert due >= busy_since + sent / shape.bytes_per_s + shape.delay_s - 1e-6
        else:
            assert due <= max(last, now + shape.delay_s + shape.jitter_s + 1e-9)
        last = due


def test_pieces_are_on_their_way_together() -> None:
    """100 pieces that arrive at once come out at once after one delay, not after a hundred."""
    line = Line(Shape(delay_s=0.05), "a")
    assert {line.due(7.0, 1000) for _ in range(100)} == {7.05}


def test_a_limited_line_sends_one_after_the_other_and_delays_all_alike() -> None:
    line = Line(Shape(delay_s=0.05, bytes_per_s=1e6), "a")
    assert [line.due(7.0, 1000) for _ in range(3)] == pytest.approx([7.051, 7.052, 7.053])
    assert line.due(8.0, 1000) == pytest.approx(8.051), "it was free again"


def test_jitter_is_the_seed_s_and_spread_over_its_range() -> None:
    """The mean of 2000 draws is within five standard errors of the middle: 1 in 1.7 million is outside."""

    def extra(seed: int, name: str) -> list[float]:
        line = Line(Shape(jitter_s=0.01, seed=seed), name)
        return [line.due(float(second), 10) - second for second in range(1, 2001)]

    assert extra(1, "a") == extra(1, "a")
    assert extra(1, "a") != extra(2, "a")
    assert extra(1, "a") != extra(1, "b")
    assert all(0 <= one <= 0.01 + 1e-9 for one in extra(1, "a"))
    assert abs(sum(extra(1, "a")) / 2000 - 0.005) < 5 * 0.01 / math.sqrt(12 * 2000)


def test_only_a_limited_line_cuts_what_it_sends() -> None:
    assert Shape().slice_bytes is None
    assert Shape(bytes_per_s=1000).slice_bytes == 1500
    assert Shape(bytes_per_s=1e8).slice_bytes == 50_000


@pytest.mark.parametrize("name", ["delay_s", "jitter_s", "bytes_per_s"])
@pytest.mark.parametrize("value", [-0.001, math.nan])
def test_a_number_that_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a number from 0 on"):
        Shape(**{name: value})
