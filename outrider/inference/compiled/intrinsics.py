"""What numba lacks: bit casts, atomics, a dot-product tile, and giving a core away. Written as LLVM code.

It knows the processor's features and nothing of models. Addresses are integers; whoever calls keeps the
arrays alive. All of it runs without the interpreter's lock.
"""

from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
from numba import types
from numba.extending import intrinsic

LANES = 16
"""Outputs of a panel: the fp32 lanes of a 512-bit register (two registers on a 256-bit machine)."""
PANELS = 2
"""Panels that a tile computes side by side."""
TILE_ROWS = 8
"""Most rows of a tile: 8 x 2 accumulators leave registers for weights and inputs."""

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS, _INTS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


_BFLOATS = ir.VectorType(_BFloat(), 2 * LANES)


def host_features() -> frozenset[str]:
    """Instruction sets of this processor, by LLVM's names."""
    return frozenset(name for name, there in llvm.get_host_cpu_features().items() if there)


HAS_BF16_DOT = "avx512bf16" in host_features()


def _declare(builder: Any, name: str, result: Any, arguments: Any) -> Any:
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def _dot_step(builder: Any, sums: Any, weights: Any, inputs: Any) -> Any:
    """sums[i] += the two products of the bfloat16 pairs in lane i."""
    if HAS_BF16_DOT:
        dot = _declare(builder, "llvm.x86.avx512bf16.dpbf16ps.512", _FLOATS, [_FLOATS, _BFLOATS, _BFLOATS])
        return builder.call(dot, [sums, builder.bitcast(weights, _BFLOATS), builder.bitcast(inputs, _BFLOATS)])
    fma = _declare(builder, "llvm.fma.v16f32", _FLOATS, [_FLOATS] * 3)
    upper, places = (ir.Constant(_INTS, [number] * LANES) for number in (-65536, 16))
    low = [builder.bitcast(builder.shl(x, places), _FLOATS) for x in (weights, inputs)]
    high = [builder.bitcast(builder.and_(x, upper), _FLOATS) for x in (weights, inputs)]
    return builder.call(fma, [*high, builder.call(fma, [*low, sums])])


def _vector_at(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    """Pointer to a vector ``offset`` 32-bit words behind an address."""
    words = builder.inttoptr(base, _I32.as_pointer())
    return builder.bitcast(builder.gep(words, [offset]), kind.as_pointer())


def _load_pair(builder: Any, base: Any, offset: Any) -> Any:
    """One bfloat16 pair in every lane."""
    pair = builder.load(builder.gep(builder.inttoptr(base, _I32.as_pointer()), [offset]))
    one = builder.insert_element(ir.Constant(_INTS, ir.Undefined), pair, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, ir.Constant(_INTS, ir.Undefined), ir.Constant(_INTS, None))


def _tile_body(
    builder: Any, rows: int, step: Any, sums: Any, inputs: Any, input_stride: Any, weights: Any, panel_stride: Any
) -> Any:
    """One pair of columns: every row's pair times every panel's pairs."""
    columns = []
    for panel in range(PANELS):
        offset = builder.add(builder.mul(panel_stride, _I64(panel)), builder.mul(step, _I64(LANES)))
        loaded = builder.load(_vector_at(builder, weights, offset, _INTS))
        loaded.align = 4
        columns.append(loaded)
    fresh = []
    for row in range(rows):
        pair = _load_pair(builder, inputs, builder.add(builder.mul(input_stride, _I64(row)), step))
        fresh += [_dot_step(builder, sums[row * PANELS + n], column, pair) for n, column in enumerate(columns)]
    return fresh


def _tile_loop(builder: Any, rows: int, inputs: Any, input_stride: Any, weights: Any, pairs: Any) -> Any:
    """The loop over the columns, strictly from 0 upwards; returns the accumulators."""
    before = builder.block
    loop, end = (builder.function.append_basic_block(name) for name in ("columns", "columns_end"))
    panel_stride = builder.mul(pairs, _I64(LANES))
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(_I64)
    step.add_incoming(_I64(0), before)
    sums = [builder.phi(_FLOATS) for _ in range(rows * PANELS)]
    for total in sums:
        total.add_incoming(ir.Constant(_FLOATS, None), before)
    fresh = _tile_body(builder, rows, step, sums, inputs, input_stride, weights, panel_stride)
    following = builder.add(step, _I64(1))
    step.add_incoming(following, loop)
    for total, new in zip(sums, fresh, strict=True):
        total.add_incoming(new, loop)
    builder.cbranch(builder.icmp_signed("<", following, pairs), loop, end)
    builder.position_at_end(end)
    return fresh


def dot_tile(rows: int) -> Any:
    """A function (inputs, input_stride, weights, pairs, sums) for tiles of a fixed number of rows.

    inputs: address of bfloat16 pairs [rows, pairs], ``input_stride`` pairs apart; weights: address of PANELS
    panels [pairs, LANES] of pairs; sums: address of fp32 [rows, PANELS * LANES], written. A row's sums do not
    depend on the other rows: each is one chain over the columns from 0 upwards.
    """

    @intrinsic
    def tile(typing: Any, inputs: Any, input_stride: Any, weights: Any, pairs: Any, sums: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            *operands, out = arguments
            for index, total in enumerate(_tile_loop(builder, rows, *operands)):
                stored = builder.store(total, _vector_at(builder, out, _I64(index * LANES), _FLOATS))
                stored.align = 4
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    return tile


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """The float32 with the bits of a uint32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _F32)

    return types.float32(types.uint32), generate


@intrinsic
def bits_of(typing: Any, number: Any) -> Any:
    """The bits of a float32 as a uint32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _I32)

    return types.uint32(types.float32), generate


def _cell(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _I64.as_pointer())


@intrinsic
def fetch_add(typing: Any, address: Any, amount: Any) -> Any:
    """Add to the int64 at an address, atomically; returns what was there before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _cell(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def load_shared(typing: Any, address: Any) -> Any:
    """The int64 at an address that another thread writes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_cell(builder, arguments[0]), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic
def store_shared(typing: Any, address: Any, value: Any) -> Any:
    """Write the int64 at an address that another thread reads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _cell(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def prefetch(typing: Any, address: Any) -> Any:
    """Ask for the cache line at an address; it is read soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        hint = _declare(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, _I32, _I32, _I32])
        builder.call(hint, [builder.inttoptr(arguments[0], pointer), _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def give_core_away(typing: Any) -> Any:
    """Let another thread run on this core (sched_yield)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.call(_declare(builder, "sched_yield", _I32, []), [])
        return context.get_dummy_value()

    return types.void(), generate
