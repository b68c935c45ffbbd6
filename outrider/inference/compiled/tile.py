"""A tile of dot products in bfloat16, as LLVM code: TILE_ROWS rows at most by PANELS panels of weights, a chain each.

numba has no bfloat16 and does not keep 16 accumulators in registers. It knows no layers.
"""

from typing import Any

import llvmlite.ir as ir
from numba import types
from numba.extending import intrinsic

from outrider.inference.compiled.vectors import FLOATS, I32, I64, INTS, LANES, declare, host_features, vector_at

PANELS = 2
"""Panels that a tile computes side by side."""
TILE_ROWS = 8
"""Most rows of a tile: 8 x 2 accumulators leave registers for weights and inputs."""


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


_BFLOATS = ir.VectorType(_BFloat(), 2 * LANES)


HAS_BF16_DOT = "avx512bf16" in host_features()


def _dot_step(builder: Any, sums: Any, weights: Any, inputs: Any) -> Any:
    """sums[i] += the two products of the bfloat16 pairs in lane i."""
    if HAS_BF16_DOT:
        dot = declare(builder, "llvm.x86.avx512bf16.dpbf16ps.512", FLOATS, [FLOATS, _BFLOATS, _BFLOATS])
        return builder.call(dot, [sums, builder.bitcast(weights, _BFLOATS), builder.bitcast(inputs, _BFLOATS)])
    fma = declare(builder, "llvm.fma.v16f32", FLOATS, [FLOATS] * 3)
    upper, places = (ir.Constant(INTS, [number] * LANES) for number in (-65536, 16))
    low = [builder.bitcast(builder.shl(x, places), FLOATS) for x in (weights, inputs)]
    high = [builder.bitcast(builder.and_(x, upper), FLOATS) for x in (weights, inputs)]
    return builder.call(fma, [*high, builder.call(fma, [*low, sums])])


def _load_pair(builder: Any, base: Any, offset: Any) -> Any:
    """One bfloat16 pair in every lane."""
    pair = builder.load(builder.gep(builder.inttoptr(base, I32.as_pointer()), [offset]))
    one = builder.insert_element(ir.Constant(INTS, ir.Undefined), pair, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, ir.Constant(INTS, ir.Undefined), ir.Constant(INTS, None))


def _tile_body(builder: Any, rows: int, step: Any, sums: Any, pairs: Any, inputs: Any, weights: Any) -> Any:
    """One pair of columns: every row's pair times every panel's pairs. ``inputs`` and ``weights`` are an address and
    what lies between two rows or panels."""
    columns = []
    for panel in range(PANELS):
        loaded = builder.load(vector_at(builder, weights, _panel_offset(builder, pairs, panel, step), INTS))
        loaded.align = 4
        columns.append(loaded)
    fresh = []
    for row in range(rows):
        address, stride = inputs
        pair = _load_pair(builder, address, builder.add(builder.mul(stride, I64(row)), step))
        fresh += [_dot_step(builder, sums[row * PANELS + n], column, pair) for n, column in enumerate(columns)]
    return fresh


def _panel_offset(builder: Any, pairs: Any, panel: int, step: Any) -> Any:
    """Words from the first panel to a pair of columns of another one."""
    return builder.mul(builder.add(builder.mul(pairs, I64(panel)), step), I64(LANES))


def _tile_loop(builder: Any, rows: int, before: Any, inputs: Any, weights: Any, pairs: Any) -> Any:
    """The loop over the columns, strictly from 0 upwards, on top of ``before``; returns the accumulators."""
    entry = builder.block
    loop, end = (builder.function.append_basic_block(name) for name in ("columns", "columns_end"))
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(I64)
    step.add_incoming(I64(0), entry)
    sums = [builder.phi(FLOATS) for _ in before]
    for total, first in zip(sums, before, strict=True):
        total.add_incoming(first, entry)
    fresh = _tile_body(builder, rows, step, sums, pairs, inputs, weights)
    following = builder.add(step, I64(1))
    step.add_incoming(following, loop)
    for total, new in zip(sums, fresh, strict=True):
        total.add_incoming(new, loop)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop, end)
    builder.position_at_end(end)
    return fresh


def _sum_places(builder: Any, rows: int, sums: Any, stride: Any) -> Any:
    """Where a tile's sums lie, row by row, panel by panel."""
    offsets = [builder.add(builder.mul(stride, I64(r)), I64(n * LANES)) for r in range(rows) for n in range(PANELS)]
    return [vector_at(builder, sums, offset, FLOATS) for offset in offsets]


def _sums_before(builder: Any, places: Any, onto: Any) -> Any:
    """What is there already, or zeros."""
    wanted = builder.icmp_signed("!=", onto, I64(0))
    before = []
    for place in places:
        there = builder.load(place)
        there.align = 4
        before.append(builder.select(wanted, there, ir.Constant(FLOATS, None)))
    return before


def dot_tile(rows: int) -> Any:
    """A function (inputs, input_stride, weights, pairs, sums, sum_stride, onto) for a fixed number of rows.

    inputs: address of bfloat16 pairs [rows, pairs], ``input_stride`` pairs apart; weights: address of PANELS
    panels [pairs, LANES] of pairs; sums: address of fp32 [rows, PANELS * LANES], ``sum_stride`` numbers apart, written,
    or where ``onto`` is not 0 gone on from. A row's sums do not depend on the other rows: each is one chain over the
    columns from 0 upwards, on top of what was there.
    """

    @intrinsic
    def tile(
        typing: Any, inputs: Any, input_stride: Any, weights: Any, pairs: Any, sums: Any, sum_stride: Any, onto: Any
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            inputs, input_stride, weights, pairs, sums, sum_stride, onto = arguments
            places = _sum_places(builder, rows, sums, sum_stride)
            before = _sums_before(builder, places, onto)
            totals = _tile_loop(builder, rows, before, (inputs, input_stride), weights, pairs)
            for total, place in zip(totals, places, strict=True):
                builder.store(total, place).align = 4
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return tile
