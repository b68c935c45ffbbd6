"""LLVM's vectors for what numba lacks: their types and sizes, addresses in machine code, the processor's features.

It knows neither products nor models. Addresses are integers; whoever calls keeps the arrays alive. What is built on it
runs without the interpreter's lock.
"""

from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir

LANES = 16
"""Outputs of a panel: the fp32 lanes of a 512-bit register (two registers on a 256-bit machine)."""

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS, INTS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)


def host_features() -> frozenset[str]:
    """Instruction sets of this processor, by LLVM's names."""
    return frozenset(name for name, there in llvm.get_host_cpu_features().items() if there)


def declare(builder: Any, name: str, result: Any, arguments: Any) -> Any:
    """A function of LLVM or libc by its name, declared once per module."""
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def vector_at(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    """Pointer to a vector ``offset`` 32-bit words behind an address."""
    words = builder.inttoptr(base, I32.as_pointer())
    return builder.bitcast(builder.gep(words, [offset]), kind.as_pointer())
