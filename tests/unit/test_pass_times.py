"""The time of a pass is read from its notation, follows straight lines, and nonsense is refused."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.pass_times import MOST_MS, PassTimes

POINTS = st.lists(
    st.tuples(st.integers(1, 10_000), st.floats(0, MOST_MS)), min_size=1, max_size=6, unique_by=lambda p: p[0]
)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("0", ((1, 0.0),)),
        ("2.5", ((1, 2.5),)),
        ("8:3", ((8, 3.0),)),
        ("1:20, 16:22,64:40", ((1, 20.0), (16, 22.0), (64, 40.0))),
    ],
)
def test_a_number_or_points_are_read(text: str, points: tuple[tuple[int, float], ...]) -> None:
    assert PassTimes.parse(text).points == points


@pytest.mark.parametrize(
    "text",
    ["", "fast", "-1", "nan", "inf", "60001", "1:2:3", "0:5", "1.5:5", "1:5,", "5,6", "4:5,2:6", "1:5,1:6", "1:5,2:4"],
)
def test_nonsense_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="milliseconds such as 20, or by rows such as 1:20,64:40"):
        PassTimes.parse(text)


def test_times_lie_on_lines_through_the_points_and_the_last_line_goes_on() -> None:
    times = PassTimes.parse("2:20,4:30,8:30,16:70")
    expected = {1: 20, 2: 20, 3: 25, 4: 30, 6: 30, 8: 30, 12: 50, 16: 70, 24: 110}
    assert {rows: times.seconds(rows) * 1000 for rows in expected} == pytest.approx(expected)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 500])
def test_a_single_point_is_the_time_of_every_pass(rows: int) -> None:
    assert PassTimes.parse("12").seconds(rows) == PassTimes.parse("8:12").seconds(rows) == 0.012


@given(POINTS)
def test_what_is_written_is_read_again_and_more_rows_never_take_less(points: list[tuple[int, float]]) -> None:
    rows, times = zip(*points)
    made = PassTimes(tuple(zip(sorted(rows), sorted(times))))
    assert PassTimes.parse(str(made)) == made
    seconds = [made.seconds(count) for count in range(1, 10_200, 37)]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(seconds))
