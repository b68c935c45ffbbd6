"""Softmax of one row of scores in float32: its maximum, its exponentials, their sum, and all of it rounded to bfloat16.

Sums run in LANES interleaved parts, so that their order is the same whatever shares the pass. The helpers begin by
leaving when an index is negative: it never is, but only a compiler that knows the sign vectorises the loops.
"""

from typing import Any

import numpy as np

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.arithmetic import narrow, widen
from outrider.inference.compiled.lanes import add_lanes, largest_lanes
from outrider.inference.compiled.vectors import LANES

_jit: Any = artefacts.jit
_LOG2E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_LOWEST = np.float32(-87.0)  # below this the result would leave the normal range of fp32
_ROUND = np.float32(12582912.0)  # 1.5 * 2**23: adding it leaves the nearest integer in the low bits
_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_C0, _C1, _C2, _C3, _C4, _C5 = (
    np.float32(c)  # Cephes expf: degree-5 minimax polynomial of (exp(r) - 1 - r) / r**2
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
)


@_jit
def row_max(scores: Any, row: Any, first: Any, end: Any, lanes: Any) -> Any:
    """Largest score of a row; any order gives the same one."""
    if row < 0 or first < 0:
        return _ZERO
    steps = (end - first) // LANES
    for lane in range(LANES):
        lanes[lane] = scores[row, first]
    largest_lanes(scores[row, first:].ctypes.data, steps, lanes.ctypes.data)
    highest = lanes[0]
    for lane in range(1, LANES):
        highest = lanes[lane] if lanes[lane] > highest else highest
    for i in range(first + steps * LANES, end):
        highest = scores[row, i] if scores[row, i] > highest else highest
    return highest


@_jit
def exp_row(scores: Any, bits: Any, exponents: Any, row: Any, first: Any, end: Any, highest: Any) -> None:
    """scores[row, first:end] = exp(scores - highest); ``bits`` is the int32 view of ``scores``.

    The powers of two wait in ``exponents``: one loop that wrote both views of the same memory could not
    be vectorised.
    """
    if row < 0 or first < 0:
        return
    for i in range(end - first):
        x = scores[row, first + i] - highest
        x = x if x > _LOWEST else _LOWEST
        n = (x * _LOG2E + _ROUND) - _ROUND
        r = (x - n * _LN2_HIGH) - n * _LN2_LOW
        y = ((((_C0 * r + _C1) * r + _C2) * r + _C3) * r + _C4) * r + _C5
        scores[row, first + i] = y * (r * r) + r + _ONE
        exponents[i] = np.int32(n)
    for i in range(end - first):
        bits[row, first + i] += exponents[i] << np.int32(23)


@_jit
def row_sum(scores: Any, row: Any, first: Any, end: Any, lanes: Any) -> Any:
    """Sum of a softmax row in LANES interleaved partial sums, then lane by lane."""
    if row < 0 or first < 0:
        return _ZERO
    for lane in range(LANES):
        lanes[lane] = _ZERO
    steps = (end - first) // LANES
    add_lanes(scores[row, first:].ctypes.data, steps, lanes.ctypes.data)
    whole = first + steps * LANES
    for i in range(whole, end):
        lanes[i - whole] += scores[row, i]
    total = _ZERO
    for lane in range(LANES):
        total += lanes[lane]
    return total


@_jit
def _scale(line: Any, scale: Any) -> None:
    for i in range(line.shape[0]):
        line[i] = line[i] * scale


@_jit
def _round(line: Any, rounded: Any) -> None:
    """Round to bfloat16, in both arrays."""
    for i in range(line.shape[0]):
        rounded[i] = narrow(line[i])
    for i in range(line.shape[0]):
        line[i] = widen(rounded[i])


@_jit
def softmax(
    scores: Any, bits: Any, weights: Any, exponents: Any, lanes: Any, row: Any, first: Any, end: Any, scale: Any
) -> Any:
    """Unnormalised weights of one row, rounded to bfloat16, in both arrays; returns their sum."""
    line = scores[row, first:end]
    _scale(line, scale)
    highest = row_max(scores, row, first, end, lanes)
    exp_row(scores, bits, exponents, row, first, end, highest)
    _round(line, weights[row, first:end])
    return row_sum(scores, row, first, end, lanes)
