"""The layout of a pass: rows side by side, each at its block and offset, padding that touches nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.inference.packed import PADDING, Segment, pack, padded_count

BLOCK = 4


def test_rows_lie_side_by_side_with_their_positions() -> None:
    plan = pack([Segment([5, 6, 7], 3, [9, 2], 1), Segment([8], 0, [4], 1)], BLOCK, 1)
    assert plan.tokens.tolist() == [5, 6, 7, 8]
    assert plan.positions.tolist() == [3, 4, 5, 0]
    assert plan.segments.tolist() == [[0, 3, 3], [3, 1, 0]]
    assert plan.wanted.tolist() == [2, 3]


def test_each_row_goes_to_the_block_and_offset_of_its_position() -> None:
    plan = pack([Segment([5, 6, 7], 3, [9, 2], 1), Segment([8], 0, [4], 1)], BLOCK, 1)
    assert plan.blocks.tolist() == [9, 2, 2, 4]
    assert plan.offsets.tolist() == [3, 0, 1, 0]


def test_tables_are_as_wide_as_the_longest() -> None:
    plan = pack([Segment([1], 8, [3, 1, 2], 1), Segment([1], 0, [5], 0)], BLOCK, 1)
    assert plan.tables.tolist() == [[3, 1, 2], [5, 0, 0]]


def test_padding_rows_belong_to_no_block_and_no_segment() -> None:
    plan = pack([Segment([5, 6, 7], 0, [0], 3)], BLOCK, 8)
    assert plan.rows == 8
    assert plan.blocks.tolist() == [0, 0, 0, *[PADDING] * 5]
    assert plan.segments.tolist() == [[0, 3, 0]]
    assert plan.positions.tolist()[3:] == plan.tokens.tolist()[3:] == [0] * 5


def test_wanted_rows_are_padded_behind_the_real_ones() -> None:
    plan = pack([Segment([5, 6, 7], 0, [0], 2)], BLOCK, 4)
    assert plan.wanted.tolist() == [1, 2, 0, 0]


def test_a_pass_that_wants_nothing_is_allowed() -> None:
    assert pack([Segment([5, 6], 0, [0], 0)], BLOCK, 2).wanted.tolist() == []


@pytest.mark.parametrize(("rows", "multiple", "padded"), [(1, 2, 2), (2, 2, 2), (3, 2, 4), (0, 8, 0), (9, 1, 9)])
def test_the_padded_count_is_the_next_multiple(rows: int, multiple: int, padded: int) -> None:
    assert padded_count(rows, multiple) == padded


@st.composite
def segment_lists(draw: st.DrawFn) -> list[Segment]:
    """1 to 6 segments over disjoint blocks."""
    blocks = iter(range(1000))
    segments = []
    for _ in range(draw(st.integers(1, 6))):
        rows, start = draw(st.integers(1, 12)), draw(st.integers(0, 30))
        own = [next(blocks) for _ in range(-(-(start + rows) // BLOCK))]
        segments.append(Segment(draw(st.lists(st.integers(0, 99), min_size=rows, max_size=rows)), start, own, 1))
    return segments


@given(segment_lists(), st.sampled_from([1, 2, 4, 8]))
def test_no_two_rows_write_to_the_same_place(segments: list[Segment], multiple: int) -> None:
    plan = pack(segments, BLOCK, multiple)
    places = [(b, o) for b, o in zip(plan.blocks.tolist(), plan.offsets.tolist(), strict=True) if b != PADDING]
    assert len(set(places)) == len(places) == sum(len(segment.tokens) for segment in segments)
    assert plan.rows % multiple == 0
    assert len(plan.wanted) % multiple == 0
