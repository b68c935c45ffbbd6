"""What numba lacks: bit casts, atomics, prefetching, and giving a core away. Written as LLVM code.

It knows nothing of models. Addresses are integers; whoever calls keeps the arrays alive. All of it runs without the
interpreter's lock.
"""

from typing import Any

import llvmlite.ir as ir
from numba import types
from numba.extending import intrinsic

from outrider.inference.compiled.vectors import F32, I32, I64, declare


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """The float32 with the bits of a uint32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], F32)

    return types.float32(types.uint32), generate


@intrinsic
def bits_of(typing: Any, number: Any) -> Any:
    """The bits of a float32 as a uint32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], I32)

    return types.uint32(types.float32), generate


def _cell(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, I64.as_pointer())


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
        hint = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, I32, I32, I32])
        builder.call(hint, [builder.inttoptr(arguments[0], pointer), I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def give_core_away(typing: Any) -> Any:
    """Let another thread run on this core (sched_yield)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.call(declare(builder, "sched_yield", I32, []), [])
        return context.get_dummy_value()

    return types.void(), generate
