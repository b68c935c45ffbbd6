"""The numbers of a layout: each row once in a grid, its keys where its session has them, the rest in a spare block."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.inference.accelerator.cuts import (
    PIECE_ROWS,
    TILE_BLOCKS,
    TILE_ROWS,
    TILE_SESSIONS,
    GroupedLayouts,
    Layouts,
    TiledLayouts,
)
from outrider.inference.accelerator.layout import GridShape, Layout, bucket
from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.packed import PADDING, PackedPass, Segment, pack

SPARE = 10_000
WAYS: dict[str, Layouts] = {
    "grouped": GroupedLayouts(SPARE, False),
    "framed": GroupedLayouts(SPARE, True),
    "tiled": TiledLayouts(SPARE),
}
EXPECTED = ("tokens", "positions", "slots")


@st.composite
def plans(draw: st.DrawFn) -> PackedPass:
    """Passes of one to nine sessions, short and long, with padding behind the rows."""
    segments, block = [], 0
    for _ in range(draw(st.integers(1, 9))):
        rows, start = draw(st.one_of(st.integers(1, 9), st.integers(1, 150))), draw(st.integers(0, 300))
        count = -(-(start + rows) // BLOCK_SIZE)
        tokens = [draw(st.integers(0, 99))] * rows
        segments.append(Segment(tokens, start, range(block, block + count), draw(st.integers(0, rows))))
        block += count
    return pack(segments, BLOCK_SIZE, draw(st.sampled_from([1, 2, 8])))


def parts_of(layout: Layout) -> list[np.ndarray]:
    """The arrays of a layout in order."""
    sizes = list(layout.shape.parts())
    ends = np.cumsum([int(np.prod(size)) for size in sizes])
    return [part.reshape(size) for part, size in zip(np.split(layout.flat, ends[:-1]), sizes, strict=True)]


@pytest.mark.parametrize("way", WAYS)
@given(plan=plans())
def test_each_row_finds_its_own_place_in_a_grid_and_its_sessions_blocks(way: str, plan: PackedPass) -> None:
    first = 0
    for layout in WAYS[way](plan):
        tokens, positions, slots, place, _, _, *grids = parts_of(layout)
        count = min(layout.shape.rows, plan.rows - first)
        real = plan.blocks[first : first + count] != PADDING
        here = slice(first, first + count)
        assert np.array_equal(tokens[:count], plan.tokens[here])
        assert np.array_equal(positions[:count], plan.positions[here])
        assert np.array_equal(slots[:count][real], (plan.blocks * BLOCK_SIZE + plan.offsets)[here][real])
        assert (np.delete(slots, np.flatnonzero(real)) // BLOCK_SIZE == SPARE).all(), "what fills up writes to nobody"
        rows, places = (np.concatenate([grid.ravel() for grid in grids[i::3]]) for i in (0, 1))
        assert np.array_equal(rows[place[:count][real]], np.flatnonzero(real))
        assert np.array_equal(places[place[:count][real]], positions[:count][real])
        _check_tables(layout, grids, slots)
        first += layout.shape.rows


def _check_tables(layout: Layout, grids: list[np.ndarray], slots: np.ndarray) -> None:
    """A real row's own key is the one that its table says, at its position."""
    for rows, positions, table in zip(grids[::3], grids[1::3], grids[2::3], strict=True):
        for session in range(len(table)):
            for row, position in zip(rows[session], positions[session], strict=True):
                block = table[session, position // BLOCK_SIZE]
                assert block == SPARE or slots[row] == block * BLOCK_SIZE + position % BLOCK_SIZE or position == 0


@pytest.mark.parametrize("way", WAYS)
@given(plan=plans())
def test_every_wanted_row_is_answered_once(way: str, plan: PackedPass) -> None:
    answered: list[int] = []
    first = 0
    for layout in WAYS[way](plan):
        wanted = parts_of(layout)[5]
        assert np.array_equal(first + wanted[layout.pick], plan.wanted[layout.answers])
        answered += layout.answers.tolist()
        first += layout.shape.rows
    assert sorted(answered) == list(range(len(plan.wanted)))


@pytest.mark.parametrize("way", WAYS)
@given(plan=plans())
def test_blocks_that_are_begun_are_cleared_and_no_others(way: str, plan: PackedPass) -> None:
    begun = {int(block) for block, offset in zip(plan.blocks, plan.offsets, strict=True) if offset == 0} - {PADDING}
    cleared = {int(block) for layout in WAYS[way](plan) for block in parts_of(layout)[4]}
    assert cleared - {SPARE} == begun


@given(plan=plans())
def test_tiles_have_one_shape_but_for_whole_tiles_of_sessions_and_keys(plan: PackedPass) -> None:
    layouts = WAYS["tiled"](plan)
    assert len(layouts) == -(-plan.rows // TILE_ROWS)
    for layout in layouts:
        assert layout.shape.rows == layout.shape.fresh == TILE_ROWS
        assert layout.shape.heads in (1, TILE_ROWS)
        (grid,) = layout.shape.grids
        assert grid.sessions % TILE_SESSIONS == grid.blocks % TILE_BLOCKS == grid.end == 0
        assert grid.rows == PIECE_ROWS


def steps(*sessions: tuple[int, int]) -> PackedPass:
    """A pass of sessions with so many rows after so many positions."""
    room = 400
    segments = [
        Segment([0] * rows, start, range(index * room, (index + 1) * room), rows)
        for index, (rows, start) in enumerate(sessions)
    ]
    return pack(segments, BLOCK_SIZE, 1)


def shapes(plan: PackedPass, framed: bool = True) -> tuple[bool, tuple[GridShape, ...]]:
    (layout,) = GroupedLayouts(SPARE, framed)(plan)
    return layout.shape.framed, layout.shape.grids


def test_like_steps_share_a_frame_of_a_shape_that_comes_again() -> None:
    assert shapes(steps((5, 200), (3, 100), (1, 250))) == (True, (GridShape(4, 8, 8),))
    assert shapes(steps((1, 10))) == (True, (GridShape(1, 1, 4),))


def test_one_long_session_beside_short_ones_gets_a_grid_of_its_own() -> None:
    short = [(1, 100)] * 9
    framed, grids = shapes(steps((1, 9000), *short))
    assert not framed
    assert set(grids) == {GridShape(1, 1, 512), GridShape(9, 1, 4)}


def test_a_prompt_is_exactly_itself_and_steps_beside_it_are_grouped() -> None:
    framed, grids = shapes(steps((40, 70), (1, 100), (1, 110), (5, 30)))
    assert not framed
    assert grids == (GridShape(1, 40, 4, 110), GridShape(2, 1, 4), GridShape(1, 8, 2))


def test_without_frames_nothing_is_filled_up_to_a_number_of_sessions() -> None:
    assert shapes(steps((1, 10), (1, 12), (1, 14)), framed=False) == (False, (GridShape(3, 1, 1),))


def test_buckets_are_the_next_powers_of_two() -> None:
    assert [bucket(count) for count in (1, 2, 3, 4, 5, 64, 65)] == [1, 2, 4, 4, 8, 64, 128]
    assert bucket(3, 16) == 16
