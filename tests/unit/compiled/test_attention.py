"""Attention of the compiled pass is textbook attention, and a row's bits depend on its own keys only."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.inference.compiled.attention import TILE, attend_shared, place_key_and_value
from outrider.inference.compiled.vectors import LANES
from outrider.inference.kv_store import BLOCK_SIZE

Bits = npt.NDArray[np.uint16]
Rows = tuple[Bits, Bits, Bits]
NAN, INFINITY = 0x7FC0, 0x7F80
BLOCKS = 24
TOLERANCE = 2e-2
"""For values up to 4: a weight and the result are each rounded to the 8 bits of a bfloat16."""


@dataclass(frozen=True)
class Case:
    """Heads, key/value heads, head size and window of a layer."""

    heads: int
    kv_heads: int
    size: int
    window: int = 0


CASES = [Case(4, 4, 32), Case(9, 3, 64), Case(4, 1, 128), Case(4, 2, 32, 5), Case(3, 1, 32, 40), Case(2, 2, 64, 32)]


@dataclass
class Part:
    """Rows of one session in a pass: its q, k and v, where it starts, and its blocks."""

    rows: Rows
    start: int
    table: Sequence[int]


def random_rows(count: int, case: Case, seed: int = 0, scale: float = 1.0) -> Rows:
    """q [T, H, D], k and v [T, V, D]."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(count, case.heads, case.size), *[(count, case.kv_heads, case.size)] * 2]
    q, k, v = ((torch.randn(shape, generator=generator) * scale).to(torch.bfloat16) for shape in shapes)
    return q.view(torch.uint16).numpy(), k.view(torch.uint16).numpy(), v.view(torch.uint16).numpy()


def doubles(bits: Bits) -> npt.NDArray[np.float64]:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Cache:
    """Blocks in the layout of the kernel, written here by plain indexing. Unwritten places hold ``stale``."""

    def __init__(self, case: Case, stale: int = NAN) -> None:
        self.case = case
        pairs, panels = case.size // 2, BLOCK_SIZE // LANES
        self.keys = np.full((BLOCKS, case.kv_heads, panels, pairs, LANES, 2), stale, np.uint16)
        groups, halves = case.size // LANES, BLOCK_SIZE // 2
        self.values = np.full((BLOCKS, case.kv_heads, groups, halves, LANES, 2), stale, np.uint16)

    def write(self, part: Part) -> None:
        _, k, v = part.rows
        for row in range(len(k)):
            block, offset = part.table[(part.start + row) // BLOCK_SIZE], (part.start + row) % BLOCK_SIZE
            self.keys[block, :, offset // LANES, :, offset % LANES, :] = k[row].reshape(len(k[row]), -1, 2)
            self.values[block, :, :, offset // 2, :, offset % 2] = v[row].reshape(len(v[row]), -1, LANES)

    def attend(self, parts: Sequence[Part]) -> list[Bits]:
        """One pass; the result of each part."""
        for part in parts:
            self.write(part)
        counts = [len(part.rows[0]) for part in parts]
        firsts = np.cumsum([0, *counts])
        segments = np.array([(first, n, p.start) for first, n, p in zip(firsts, counts, parts)], np.int32)
        tables = np.zeros((len(parts), max(len(part.table) for part in parts)), np.int32)
        for line, part in zip(tables, parts, strict=True):
            line[: len(part.table)] = part.table
        more = np.full((firsts[-1], 2 * self.case.kv_heads, self.case.size), NAN, np.uint16)
        queries = np.concatenate([np.concatenate([part.rows[0] for part in parts]), more], 1)
        out = np.full((firsts[-1], self.case.heads, self.case.size), NAN, np.uint16)
        counter = np.zeros(1, np.int64)
        scale, where = np.float32(self.case.size**-0.5), counter.ctypes.data
        attend_shared(queries, self.keys, self.values, out, segments, tables, scale, self.case.window, where)
        return [out[first : first + n] for first, n in zip(firsts, counts)]


def cut(rows: Rows, first: int, last: int) -> Rows:
    q, k, v = rows
    return q[first:last], k[first:last], v[first:last]


def dense(rows: Rows, window: int) -> npt.NDArray[np.float64]:
    """Textbook causal attention in float64, with neither blocks nor groups."""
    q, k, v = (doubles(bits) for bits in rows)
    group = q.shape[1] // k.shape[1]
    scores = np.einsum("rhd,khd->hrk", q, np.repeat(k, group, 1)) * q.shape[2] ** -0.5
    distance = np.arange(len(q))[:, None] - np.arange(len(q))
    scores[:, (distance < 0) | (distance >= (window or len(q) + 1))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed: npt.NDArray[np.float64] = np.einsum("hrk,khd->rhd", weights, np.repeat(v, group, 1))
    return mixed


@pytest.mark.parametrize("case", CASES)
def test_it_is_textbook_attention(case: Case) -> None:
    """Several sessions in one pass, tiles across block borders, scattered blocks, NaN in unwritten places."""
    lengths = [1, 3 * BLOCK_SIZE + 5, BLOCK_SIZE, TILE + 1, BLOCK_SIZE + 1]
    order = [int(block) for block in np.random.default_rng(0).permutation(BLOCKS)]
    parts = []
    for index, length in enumerate(lengths):
        table = [order.pop() for _ in range(-(-length // BLOCK_SIZE))]
        parts.append(Part(random_rows(length, case, index), 0, table))
    for part, out in zip(parts, Cache(case).attend(parts), strict=True):
        assert np.abs(doubles(out) - dense(part.rows, case.window)).max() < TOLERANCE


ROWS = 2 * BLOCK_SIZE + 9
TABLE = [7, 2, 19]


@st.composite
def splits(draw: st.DrawFn, rows: int) -> list[int]:
    """Sizes of passes that together run all rows."""
    sizes: list[int] = []
    while sum(sizes) < rows:
        sizes.append(draw(st.integers(1, min(40, rows - sum(sizes)))))
    return sizes


@pytest.mark.parametrize("case", [Case(9, 3, 64), Case(4, 2, 32, 5), Case(3, 1, 32, 40)])
@given(sizes=splits(ROWS), neighbours=st.lists(st.integers(1, 40), max_size=2), first=st.booleans())
@settings(max_examples=15)
def test_a_rows_bits_do_not_depend_on_what_shares_its_pass(
    case: Case, sizes: list[int], neighbours: list[int], first: bool
) -> None:
    """Design I1: one prefill, verify blocks, single steps, alone or between others: the same bits."""
    rows = random_rows(ROWS, case)
    (whole,) = Cache(case).attend([Part(rows, 0, TABLE)])
    cache, start = Cache(case), 0
    for size in sizes:
        mine = Part(cut(rows, start, start + size), start, TABLE)
        others = [Part(random_rows(n, case, 9 + n), 0, [3 + 2 * i, 12 + i]) for i, n in enumerate(neighbours)]
        outs = cache.attend([mine, *others] if first else [*others, mine])
        assert np.array_equal(outs[0 if first else -1], whole[start : start + size]), f"rows from {start}"
        start += size


@pytest.mark.parametrize("case", [Case(4, 2, 32), Case(4, 2, 32, 5), Case(9, 3, 64, 40)])
def test_what_lies_behind_a_rows_last_key_never_matters(case: Case) -> None:
    """NaN, infinity or numbers of an earlier session in the rest of a block: the same finite bits."""
    rows = random_rows(ROWS, case)
    results = []
    for stale in (0, NAN, INFINITY, INFINITY | 0x8000, 0x4700):
        cache = Cache(case, stale)
        outs = [cache.attend([Part(cut(rows, 0, 30), 0, TABLE)])[0]]
        outs += [cache.attend([Part(cut(rows, at, at + 1), at, TABLE)])[0] for at in range(30, ROWS)]
        results.append(np.concatenate(outs))
    assert np.isfinite(doubles(results[0])).all()
    assert all(np.array_equal(result, results[0]) for result in results)


def test_what_lies_before_a_rows_window_never_matters() -> None:
    """Blocks that have left the window may hold anything, infinity included."""
    case, start = Case(4, 2, 32, 5), 2 * BLOCK_SIZE + 3
    rows = random_rows(ROWS, case)
    results = []
    for junk in (0, NAN, INFINITY):
        cache = Cache(case)
        cache.write(Part(cut(rows, 0, start), 0, TABLE))
        for position in range(start - case.window + 1):
            there = (np.full((1, n, case.size), junk, np.uint16) for n in (case.heads, case.kv_heads, case.kv_heads))
            q, k, v = there
            cache.write(Part((q, k, v), position, TABLE))
        results.append(cache.attend([Part(cut(rows, start, ROWS), start, TABLE)])[0])
    assert np.isfinite(doubles(results[0])).all()
    assert all(np.array_equal(result, results[0]) for result in results)


def test_a_rows_bits_do_not_depend_on_which_blocks_hold_its_keys() -> None:
    case = Case(4, 2, 32)
    rows = random_rows(ROWS, case)
    one, other = (Cache(case).attend([Part(rows, 0, table)])[0] for table in ([0, 1, 2], [20, 4, 11]))
    assert np.array_equal(one, other)


def test_huge_and_tiny_scores_stay_finite() -> None:
    """Scores far apart: the softmax is one-hot, without an overflow or a NaN, and the first row sees itself only."""
    case = Case(2, 1, 32)
    q, k, _ = random_rows(ROWS, case, scale=300.0)
    v = random_rows(ROWS, case)[2]
    (out,) = Cache(case).attend([Part((q, k, v), 0, TABLE)])
    assert np.isfinite(doubles(out)).all()
    assert np.abs(doubles(out) - dense((q, k, v), 0)).max() < TOLERANCE
    assert np.array_equal(out[0], np.repeat(v[0], 2, 0))


@pytest.mark.parametrize("offset", [0, 1, LANES - 1, LANES, BLOCK_SIZE - 1])
def test_keys_and_values_are_placed_where_attention_reads_them(offset: int) -> None:
    """And nowhere else."""
    case = Case(1, 1, 64)
    rows = random_rows(1, case)
    ours, expected = Cache(case), Cache(case)
    place_key_and_value(rows[1][0, 0], rows[2][0, 0], offset, ours.keys[5, 0], ours.values[5, 0])
    expected.write(Part(rows, offset, [5]))
    assert np.array_equal(ours.keys, expected.keys)
    assert np.array_equal(ours.values, expected.values)
