"""The chunk beside running sessions follows the measured passes, and one odd pass changes nothing."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.inference.pace import LEAST_ROWS, STRETCH, UNNOTICED_S, Pace

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def measured(cost: Callable[[int], float], times: int = 5) -> Pace:
    pace = Pace()
    for rows in SIZES:
        for _ in range(times):
            pace.note(rows, cost(rows))
    return pace


def test_without_measurements_a_chunk_is_small() -> None:
    assert Pace().chunk(8, 256) == LEAST_ROWS


def test_where_rows_cost_nothing_a_prompt_takes_all_it_may() -> None:
    assert measured(lambda rows: 0.01).chunk(8, 256) == 256
    assert measured(lambda rows: 0.01).chunk(8, 100) == 64


def test_where_rows_cost_a_prompt_takes_what_keeps_the_pace() -> None:
    """200 ms and 5 ms a row: 8 rows take 240 ms, so 1.2 s hold 128 rows of a prompt and not 256."""
    assert measured(lambda rows: 0.2 + 0.005 * rows).chunk(8, 256) == 128


def test_where_rows_are_all_that_costs_a_prompt_takes_least() -> None:
    assert measured(lambda rows: 0.01 * rows).chunk(1, 256) == LEAST_ROWS


def test_a_pass_that_nobody_notices_may_be_much_longer_than_a_quiet_one() -> None:
    """10 ms and 0.75 ms a row: five times the pass of 8 rows would hold 32 of a prompt; 80 ms hold 64."""
    assert measured(lambda rows: 0.01 + 0.00075 * rows).chunk(8, 256) == 64


def test_one_delayed_pass_changes_nothing() -> None:
    pace = measured(lambda rows: 0.2 + 0.005 * rows)
    for rows in (8, 136):
        pace.note(rows, 5.0)
    assert pace.chunk(8, 256) == 128


def test_it_follows_passes_that_become_slower() -> None:
    """As they do when contexts grow."""
    pace = measured(lambda rows: 0.2 + 0.005 * rows)
    for _ in range(2):
        pace.note(72, 2.0)
    assert pace.chunk(8, 256) == 32


def test_sizes_that_were_never_measured_are_guessed_from_those_around_them() -> None:
    pace = Pace()
    pace.note(8, 0.02)
    assert pace.estimate(16) == pytest.approx(0.04), "one size says nothing of the start: in proportion"
    assert pace.estimate(1) == pytest.approx(0.02)
    pace.note(24, 0.04)
    assert pace.estimate(40) == pytest.approx(0.06), "two sizes below: their line goes on"
    pace.note(200, 0.128)
    assert pace.estimate(40) == pytest.approx(0.048), "one below and one above: between them"


def test_larger_chunks_are_tried_when_rows_turn_out_to_be_cheap() -> None:
    """Each pass measures the chunk that the last ones allowed."""
    pace = Pace()
    pace.note(8, 0.02)
    chunks = []
    for _ in range(6):
        chunks.append(pace.chunk(8, 256))
        pace.note(8 + chunks[-1], 0.02 + 0.00001 * chunks[-1])
    assert chunks[0] <= 2 * LEAST_ROWS
    assert chunks[-1] == 256


def test_a_size_is_not_taken_for_a_larger_one_that_was_measured() -> None:
    """Whole prompts of 250 rows say little of 130."""
    pace = measured(lambda rows: 0.01 + 0.00075 * rows)
    for _ in range(15):
        pace.note(250, 0.01 + 0.00075 * 250)
    assert pace.estimate(130) == pytest.approx(0.01 + 0.00075 * 130)


@given(st.floats(1e-4, 1.0), st.floats(0.0, 1e-2), st.integers(0, 64))
def test_a_chunk_never_costs_more_than_the_stretch_when_costs_are_a_line(
    base: float, per_row: float, short_rows: int
) -> None:
    pace = measured(lambda rows: base + per_row * rows)
    rows = pace.chunk(short_rows, 256)
    quiet, full = pace.estimate(max(1, short_rows)), pace.estimate(short_rows + rows)
    assert quiet is not None
    assert full is not None
    assert rows == LEAST_ROWS or full <= max(STRETCH * quiet, UNNOTICED_S)
