"""The kernels compute attention, whatever passes the rows come in; the tiled one with the same bits each time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.inference.accelerator.cuts import TILE_BLOCKS
from outrider.inference.kv_store import BLOCK_SIZE
from tests.unit.accelerator.sessions import WAYS, Sessions
from tests.unit.attention_cases import CASES, Case, dense

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
ROUNDED_ONCE = {torch.float32: 3e-6, torch.bfloat16: 9e-3, torch.float16: 1.2e-3}
"""For values up to 4: fp32 arithmetic over a hundred keys; one rounding to the 8 bits of a bfloat16 or the 11 of a
half: half a unit in the last place of 4 is 7.8e-3 and 0.98e-3."""
ROUNDED_TWICE = {torch.float32: 3e-6, torch.bfloat16: 1.7e-2, torch.float16: 2.2e-3}
"""torch's kernels also round the weights to the dtype before they meet the values: as much again at most."""


def tolerance(way: str, dtype: torch.dtype) -> float:
    return (ROUNDED_ONCE if way == "tiled" else ROUNDED_TWICE)[dtype]


def furthest(way: str, case: Case, dtype: torch.dtype, passes: list[list[tuple[int, int]]]) -> float:
    """Greatest difference from textbook attention over the rows of all sessions of these passes."""
    lengths: dict[int, int] = {}
    for counts in passes:
        for index, count in counts:
            lengths[index] = lengths.get(index, 0) + count
    sessions = Sessions(way, case, dtype, [lengths[index] for index in range(len(lengths))])
    outs: dict[int, list[torch.Tensor]] = {index: [] for index in lengths}
    for counts in passes:
        for (index, _), out in zip(counts, sessions.run(counts), strict=True):
            outs[index].append(out)
    wholes = [dense(*session.rows, case.window) for session in sessions.sessions]
    return max(float((torch.cat(outs[index]).double() - wholes[index]).abs().max()) for index in lengths)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_prompts_blocks_and_steps_are_textbook_attention(case: Case, way: str, dtype: torch.dtype) -> None:
    """Two sessions: a prompt over block borders, a chunk with history, blocks to verify beside each other, steps."""
    passes = [[(0, 70)], [(0, 30), (1, 1)], [(0, 5), (1, 3)], [(1, 33)], [(0, 1), (1, 9)], [(0, 1), (1, 1)], [(0, 1)]]
    assert furthest(way, case, dtype, passes) < tolerance(way, dtype)


@st.composite
def many_passes(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Passes over up to five sessions; each session runs at least once."""
    sessions = draw(st.integers(1, 5))
    count = st.one_of(st.integers(1, 9), st.integers(1, 70))
    passes = [[(index, draw(count)) for index in range(sessions)]]
    for _ in range(draw(st.integers(0, 4))):
        chosen = draw(st.lists(st.integers(0, sessions - 1), min_size=1, unique=True))
        passes.append([(index, draw(count)) for index in chosen])
    return passes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", [Case(9, 3, 64), Case(4, 2, 32, 5)])
@given(passes=many_passes())
@settings(max_examples=15, deadline=None)
def test_any_passes_of_any_sessions_are_textbook_attention(
    case: Case, way: str, passes: list[list[tuple[int, int]]]
) -> None:
    assert furthest(way, case, torch.float32, passes) < tolerance(way, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [Case(9, 3, 64), Case(4, 2, 32, 5), Case(4, 4, 16)])
@given(passes=many_passes())
@settings(max_examples=10, deadline=None)
def test_tiled_bits_do_not_depend_on_the_passes(
    case: Case, dtype: torch.dtype, passes: list[list[tuple[int, int]]]
) -> None:
    """Design I1: each session in its passes beside others has the bits of one prefill of it alone."""
    outs: dict[int, list[torch.Tensor]] = {}
    lengths = {index: 350 for index, _ in passes[0]}
    together = Sessions("tiled", case, dtype, list(lengths.values()))
    for counts in passes:
        for (index, _), out in zip(counts, together.run(counts), strict=True):
            outs.setdefault(index, []).append(out)
    for index, parts in outs.items():
        alone = Sessions("tiled", case, dtype, list(lengths.values()))
        ours = torch.cat(parts)
        assert torch.equal(ours, alone.run([(index, len(ours))])[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiled_bits_do_not_depend_on_a_neighbour_with_many_more_keys(dtype: torch.dtype) -> None:
    """The neighbour's second tile of keys is one of keys that the row does not see."""
    case, long = Case(4, 2, 32), TILE_BLOCKS * BLOCK_SIZE + 40
    beside, alone = (Sessions("tiled", case, dtype, [60, long + 60]) for _ in range(2))
    beside.run([(1, long)])
    for count in (20, 5, 1):
        assert torch.equal(beside.run([(0, count), (1, count)])[0], alone.run([(0, count)])[0])


@pytest.mark.parametrize("way", ["framed", "grouped"])
def test_a_long_session_beside_short_ones(way: str) -> None:
    """Too unlike for one frame; and keys beyond one tile."""
    passes = [[(0, 600), *((i, 3) for i in range(1, 7))], [(i, 2) for i in range(7)]]
    assert furthest(way, Case(4, 2, 16), torch.float32, passes) < tolerance(way, torch.float32) * 2
