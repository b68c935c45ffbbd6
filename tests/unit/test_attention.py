"""The two kernels agree, and the compiled one gives each row the same bits however rows are split."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.inference.attention import CpuKernel, Kernel, PagedAttention, TorchKernel
from outrider.inference.kv_store import BLOCK_SIZE, KVStore, LayerShape
from outrider.inference.packed import PackedPass, Segment, pack
from tests.unit.attention_cases import CASES, CPU, Case, dense, random_rows

TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 9e-3}
"""For values up to 4: fp32 arithmetic over a hundred keys; one rounding to the 8 bits of a bfloat16."""


def kernel(kind: type, case: Case, dtype: torch.dtype, blocks: int = 24) -> tuple[Kernel[PackedPass], KVStore]:
    layers = [LayerShape(case.kv_heads, case.size, case.window)]
    store = KVStore(layers, blocks, dtype, CPU)
    for tensor in (*store.keys, *store.values):
        tensor.fill_(1e4)  # whatever is read without having been written shows
    return (CpuKernel(store, layers, dtype) if kind is CpuKernel else TorchKernel(store, layers)), store


def run_split(
    kind: type, case: Case, dtype: torch.dtype, rows: int, splits: Sequence[int], seed: int = 0
) -> torch.Tensor:
    """Attention of one session's rows, so many at a time, over scattered blocks."""
    attend, _ = kernel(kind, case, dtype)
    q, k, v = random_rows(rows, case, dtype, seed)
    table = [7, 2, 19, 11, 3, 5, 13][: -(-rows // BLOCK_SIZE)]
    parts, start = [], 0
    for count in splits:
        part = slice(start, start + count)
        plan = pack([Segment([0] * count, start, table, count)], BLOCK_SIZE, 1)
        parts.append(attend(0, q[part], k[part], v[part], plan, case.size**-0.5))
        start += count
    assert start == rows
    return torch.cat(parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [CpuKernel, TorchKernel])
@pytest.mark.parametrize("case", CASES)
def test_a_kernel_computes_textbook_attention(case: Case, kind: type, dtype: torch.dtype) -> None:
    """Over block borders, with grouped heads and windows, scattered blocks and junk in unwritten places."""
    rows = 3 * BLOCK_SIZE + 5
    out = run_split(kind, case, dtype, rows, [rows])
    expected = dense(*random_rows(rows, case, dtype), case.window)
    assert float((out.double() - expected).abs().max()) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_both_kernels_agree_on_several_segments_in_one_pass(case: Case, dtype: torch.dtype) -> None:
    lengths = [1, BLOCK_SIZE, BLOCK_SIZE + 1, 7]
    tables = [[4], [9], [1, 6], [0]]
    segments = [Segment([0] * n, 0, table, 1) for n, table in zip(lengths, tables, strict=True)]
    plan = pack(segments, BLOCK_SIZE, 1)
    q, k, v = random_rows(sum(lengths), case, dtype, 3)
    outs = [kernel(kind, case, dtype)[0](0, q, k, v, plan, case.size**-0.5) for kind in (CpuKernel, TorchKernel)]
    assert float((outs[0].double() - outs[1].double()).abs().max()) < TOLERANCE[dtype] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_kernels_store_the_same_keys_and_values(dtype: torch.dtype) -> None:
    case, rows = Case(4, 2, 16), BLOCK_SIZE + 3
    plan = pack([Segment([0] * rows, 0, [5, 1], 1)], BLOCK_SIZE, 8)
    q, k, v = random_rows(plan.rows, case, dtype)
    stores = []
    for kind in (CpuKernel, TorchKernel):
        attend, store = kernel(kind, case, dtype)
        attend(0, q, k, v, plan, 0.25)
        stores.append(store)
    for ours, theirs in zip((*stores[0].keys, *stores[0].values), (*stores[1].keys, *stores[1].values), strict=True):
        assert torch.equal(ours, theirs)
        assert torch.equal(ours[0], torch.full_like(ours[0], 1e4)), "padding rows write nowhere"


@st.composite
def splits(draw: st.DrawFn, rows: int) -> list[int]:
    """Sizes of passes that together run all rows."""
    sizes: list[int] = []
    while sum(sizes) < rows:
        sizes.append(draw(st.integers(1, min(40, rows - sum(sizes)))))
    return sizes


ROWS = 2 * BLOCK_SIZE + 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", [Case(9, 3, 64), Case(4, 2, 32, 5)])
@given(parts=splits(ROWS))
@settings(max_examples=15)
def test_a_rows_bits_do_not_depend_on_how_rows_are_split(case: Case, dtype: torch.dtype, parts: list[int]) -> None:
    """Design I1: one prefill, verify blocks, single steps: the same bits."""
    whole = run_split(CpuKernel, case, dtype, ROWS, [ROWS])
    assert torch.equal(run_split(CpuKernel, case, dtype, ROWS, parts), whole)


def test_single_steps_give_the_bits_of_one_prefill() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        whole = run_split(CpuKernel, CASES[1], dtype, ROWS, [ROWS])
        assert torch.equal(run_split(CpuKernel, CASES[1], dtype, ROWS, [1] * ROWS), whole)


@pytest.mark.parametrize("neighbour", [1, 15, 16, 17, 60])
def test_a_rows_bits_do_not_depend_on_its_neighbours(neighbour: int) -> None:
    """The same rows first, last, and alone in a pass."""
    case, dtype, rows = Case(9, 3, 64), torch.bfloat16, 40
    q, k, v = random_rows(rows, case, dtype)
    nq, nk, nv = random_rows(neighbour, case, dtype, 9)
    mine, other = Segment([0] * rows, 0, [3, 8], 1), Segment([0] * neighbour, 0, [1, 2], 1)
    alone = kernel(CpuKernel, case, dtype)[0](0, q, k, v, pack([mine], BLOCK_SIZE, 1), 0.125)
    for order in ((mine, other), (other, mine)):
        pairs = ((q, nq), (k, nk), (v, nv))
        q2, k2, v2 = (torch.cat(pair if order[0] is mine else pair[::-1]) for pair in pairs)
        out = kernel(CpuKernel, case, dtype)[0](0, q2, k2, v2, pack(order, BLOCK_SIZE, 2), 0.125)
        at = 0 if order[0] is mine else neighbour
        assert torch.equal(out[at : at + rows], alone)


def test_a_rows_bits_do_not_depend_on_which_blocks_hold_its_keys() -> None:
    case, dtype, rows = Case(4, 2, 32), torch.float32, 2 * BLOCK_SIZE
    q, k, v = random_rows(rows, case, dtype)
    outs = []
    for table in ([0, 1], [20, 4]):
        plan = pack([Segment([0] * rows, 0, table, 1)], BLOCK_SIZE, 1)
        outs.append(kernel(CpuKernel, case, dtype)[0](0, q, k, v, plan, 0.2))
    assert torch.equal(*outs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_huge_and_tiny_scores_stay_finite(dtype: torch.dtype) -> None:
    """Scores far apart: the softmax is one-hot, without an overflow or a NaN."""
    case, rows = Case(2, 1, 16), 12
    attend, _ = kernel(CpuKernel, case, dtype)
    q, k, v = random_rows(rows, case, dtype)
    out = attend(0, q * 100, k * 100, v, pack([Segment([0] * rows, 0, [0], 1)], BLOCK_SIZE, 1), 1.0)
    assert bool(torch.isfinite(out.float()).all())
    assert float(out.float().abs().max()) <= float(v.float().abs().max()) * 1.01


def test_the_first_row_sees_itself_only() -> None:
    case = Case(2, 1, 16)
    attend, _ = kernel(CpuKernel, case, torch.float32)
    q, k, v = random_rows(4, case, torch.float32)
    out = attend(0, q, k, v, pack([Segment([0] * 4, 0, [2], 1)], BLOCK_SIZE, 1), 0.25)
    assert torch.equal(out[0], v[0].expand(2, 16))


def test_a_model_called_outside_a_pass_is_an_error() -> None:
    attention = PagedAttention(kernel(CpuKernel, CASES[0], torch.float32)[0])
    nothing = torch.zeros(1, 4, 1, 16)
    with pytest.raises(RuntimeError, match="outside a pass"):
        attention(None, nothing, nothing, nothing, None, 1.0)


def test_paged_attention_speaks_the_layout_of_transformers() -> None:
    """[1, H, T, D] in, [1, T, H, D] out, for the layer that the module names."""

    class Module:
        layer_idx = 0

    case, rows = Case(4, 2, 16), 6
    q, k, v = random_rows(rows, case, torch.float32)
    plan = pack([Segment([0] * rows, 0, [1], 1)], BLOCK_SIZE, 1)
    attention = PagedAttention(kernel(CpuKernel, case, torch.float32)[0])
    attention.begin(plan)
    wide_q, wide_k, wide_v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out, weights = attention(Module(), wide_q, wide_k, wide_v, None, 0.25)
    assert weights is None
    assert torch.equal(out[0], kernel(CpuKernel, case, torch.float32)[0](0, q, k, v, plan, 0.25))
