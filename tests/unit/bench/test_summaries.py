"""Percentiles, latencies, speeds and ratios by hand-made numbers."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.summaries import chosen, end_to_end_s, latency, percentile, ratio, speeds, tpot_ms, ttft_ms
from tests.unit.bench.measured import CODE, LONG, measured, timing, window

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


def test_percentiles_lie_between_neighbours() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile([0.0, 10.0], 95) == 9.5
    assert percentile([7.0], 99) == 7.0


@given(VALUES)
def test_percentiles_agree_with_the_median_and_the_ends(values: list[float]) -> None:
    assert percentile(values, 50) == pytest.approx(statistics.median(values))
    assert (percentile(values, 0), percentile(values, 100)) == (min(values), max(values))


@given(VALUES)
def test_percentiles_grow(values: list[float]) -> None:
    p50, p95, p99 = (percentile(values, percent) for percent in (50, 95, 99))
    assert p50 <= p95 + 1e-6 <= p99 + 2e-6


def test_latencies_of_one_answer() -> None:
    one = timing(2.5, tokens=11, ttft_s=0.5)
    assert ttft_ms(one) == pytest.approx(500)
    assert tpot_ms(one) == pytest.approx(200), "two seconds for the ten tokens after the first"
    assert end_to_end_s(one) == pytest.approx(2.5)


def test_an_answer_of_one_token_has_no_time_between_tokens() -> None:
    assert tpot_ms(timing(0.5, tokens=1)) == 0


def test_latency_is_over_all_answers_of_all_windows() -> None:
    found = latency([measured("A", window(), 1.0, 2.0), measured("A", window(), 3.0)])
    assert found.answers == 3
    assert found.end_to_end_s[0] == pytest.approx(2.0)
    assert found.end_to_end_s[2] == pytest.approx(2.98)


def test_a_window_lasts_until_its_slowest_answer() -> None:
    one = measured("A", window(sessions=2), 1.0, 2.0)
    assert (one.seconds, one.tokens) == (2.0, 22)


def test_the_speed_of_a_round_is_all_tokens_over_all_seconds() -> None:
    windows = [measured("A", window(CODE), 1.0), measured("A", window(LONG), 3.0)]
    later = [measured("A", window(CODE, round_number=1), 2.0), measured("A", window(LONG, round_number=1), 2.0)]
    assert speeds([*later, *windows]) == [32 / 4, 32 / 4]


def test_a_ratio_is_taken_round_by_round() -> None:
    """The middle round was slow for both, which must not count."""
    ours = [measured("A", window(round_number=i), seconds) for i, seconds in enumerate((1.0, 10.0, 1.0))]
    theirs = [measured("B", window(round_number=i), seconds) for i, seconds in enumerate((2.0, 20.0, 3.0))]
    found = ratio(ours, theirs)
    assert (found.median, found.least, found.most) == pytest.approx((2.0, 2.0, 3.0))


def test_a_ratio_of_different_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([measured("A", window(), 1.0)], [])


def test_windows_are_chosen_by_system_sessions_and_class() -> None:
    one, four = measured("A", window(CODE), 1.0), measured("A", window(LONG, sessions=4), 1.0)
    everything = [one, four, measured("B", window(CODE), 1.0)]
    assert chosen(everything, "A") == [one, four]
    assert chosen(everything, "A", sessions=4) == [four]
    assert chosen(everything, "A", traffic="code") == [one]
