"""The smallest pieces of the compiled pass: bfloat16 and back, and a tile of dot products by its row count."""

from typing import Any

import numpy as np

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.intrinsics import bits_of, float_of
from outrider.inference.compiled.tile import TILE_ROWS, dot_tile

_jit: Any = artefacts.jit
_PLACES = np.uint32(16)
_HALF, _ONE_BIT = np.uint32(0x7FFF), np.uint32(1)
_tile_1, _tile_2, _tile_3, _tile_4, _tile_5, _tile_6, _tile_7, _tile_8 = (dot_tile(n + 1) for n in range(TILE_ROWS))


@_jit
def widen(number: Any) -> Any:
    """bfloat16 to float32."""
    return float_of(np.uint32(number) << _PLACES)


@_jit
def narrow(number: Any) -> Any:
    """float32 to the nearest bfloat16, ties to even."""
    bits = bits_of(number)
    return np.uint16((bits + _HALF + ((bits >> _PLACES) & _ONE_BIT)) >> _PLACES)


@_jit
def dot(rows: Any, inputs: Any, stride: Any, weights: Any, pairs: Any, sums: Any, sum_stride: Any, onto: Any) -> None:
    """``tile.dot_tile`` for 1 to TILE_ROWS rows; the number of rows selects its machine code."""
    if rows == 8:
        _tile_8(inputs, stride, weights, pairs, sums, sum_stride, onto)
    elif rows == 1:
        _tile_1(inputs, stride, weights, pairs, sums, sum_stride, onto)
    elif rows == 2:
        _tile_2(inputs, stride, weights, pairs, sums, sum_stride, onto)
    elif rows == 3:
        _tile_3(inputs, stride, weights, pairs, sums, sum_stride, onto)
    elif rows == 4:
        _tile_4(inputs, stride, weights, pairs, sums, sum_stride, onto)
    elif rows == 5:
        _tile_5(inputs, stride, weights, pairs, sums, sum_stride, onto)
    elif rows == 6:
        _tile_6(inputs, stride, weights, pairs, sums, sum_stride, onto)
    else:
        _tile_7(inputs, stride, weights, pairs, sums, sum_stride, onto)
