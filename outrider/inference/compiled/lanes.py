"""Sums and maxima, lane by lane, of the columns of [steps, LANES]; numba would take the numbers one by one."""

from typing import Any

from numba import types
from numba.extending import intrinsic

from outrider.inference.compiled.vectors import FLOATS, I64, LANES, vector_at


def _fold(combine: Any) -> Any:
    """A function (numbers, steps, lanes): lane i of ``lanes`` becomes its combination with numbers i, LANES + i, ...

    Both are addresses of fp32, of LANES numbers a step. numba would take the lanes one by one.
    """

    @intrinsic
    def fold(typing: Any, numbers: Any, steps: Any, lanes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers, steps, lanes = arguments
            place = vector_at(builder, lanes, I64(0), FLOATS)
            before = builder.load(place)
            before.align = 4
            entry = builder.block
            head, body, end = (builder.function.append_basic_block(name) for name in ("lanes", "step", "lanes_end"))
            builder.branch(head)
            builder.position_at_end(head)
            step, total = builder.phi(I64), builder.phi(FLOATS)
            builder.cbranch(builder.icmp_signed("<", step, steps), body, end)
            builder.position_at_end(body)
            part = builder.load(vector_at(builder, numbers, builder.mul(step, I64(LANES)), FLOATS))
            part.align = 4
            for phi, first, next_ in (
                (step, I64(0), builder.add(step, I64(1))),
                (total, before, combine(builder, total, part)),
            ):
                phi.add_incoming(first, entry)
                phi.add_incoming(next_, body)
            builder.branch(head)
            builder.position_at_end(end)
            builder.store(total, place).align = 4
            return context.get_dummy_value()

        return types.void(*[types.int64] * 3), generate

    return fold


def _larger(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", other, one), other, one)


add_lanes = _fold(lambda builder, one, other: builder.fadd(one, other))
largest_lanes = _fold(_larger)
