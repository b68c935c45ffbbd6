"""Products with packed weights, in tiles, each ended by what the model does with it.

A row's outputs are chains over the columns from 0 upwards, whatever rows share the tile. Weights are
[panels, pairs of columns, LANES] int32. It knows no layers.
"""

from typing import Any

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.arithmetic import dot, narrow, widen
from outrider.inference.compiled.team import share
from outrider.inference.compiled.tile import PANELS, TILE_ROWS
from outrider.inference.compiled.vectors import LANES

_jit: Any = artefacts.jit


STORE, ADD, GATE, SCORE = 0, 1, 2, 3
"""How a product ends. Numbers, because numba cannot keep the machine code of what takes functions as arguments."""


@_jit
def _store(sums: Any, bias: Any, out: Any) -> None:
    """out = sums + bias, rounded as transformers does: the biased sum once."""
    for i in range(out.shape[0]):
        out[i] = narrow(sums[i] + bias[i])


@_jit
def _add(sums: Any, out: Any) -> None:
    """out += sums, the residual connection; the sums are rounded first."""
    for i in range(out.shape[0]):
        out[i] = narrow(widen(out[i]) + widen(narrow(sums[i])))


@_jit
def _gate(sums: Any, silu: Any, out: Any) -> None:
    """out = silu(gate) * up; the tile's first panel is the gate, its second is up. silu is that of every bfloat16."""
    for i in range(out.shape[0]):
        out[i] = narrow(widen(silu[narrow(sums[i])]) * widen(narrow(sums[LANES + i])))


@_jit
def _score(sums: Any, out: Any) -> None:
    """Logits: rounded to bfloat16, given as float32."""
    for i in range(out.shape[0]):
        out[i] = widen(narrow(sums[i]))


@_jit
def product(
    inputs: Any, rows: Any, weights: Any, kind: Any, bias: Any, silu: Any, out: Any, sums: Any, member: Any,
    members: Any,
) -> None:  # fmt: skip
    """A member's share of inputs [rows, 2 * pairs] times weights, ended as ``kind`` says, into out [rows, outputs].

    ``sums`` [TILE_ROWS, PANELS * LANES] is scratch.
    """
    pairs = weights.shape[1]
    width, outputs = LANES * PANELS, LANES if kind == GATE else LANES * PANELS
    parts = (rows + TILE_ROWS - 1) // TILE_ROWS
    first, last = share(weights.shape[0] // PANELS, member, members)
    for tile in range(first, last):
        panel = weights[tile * PANELS :].ctypes.data
        left = tile * outputs
        right = min(left + outputs, out.shape[1])
        for part in range(parts):
            begin, end = share(rows, part, parts)
            dot(end - begin, inputs[begin:].ctypes.data, pairs, panel, pairs, sums.ctypes.data, width, 0)
            for row in range(begin, end):
                line = sums[row - begin]
                if kind == STORE:
                    _store(line, bias[left:right], out[row, left:right])
                elif kind == ADD:
                    _add(line, out[row, left:right])
                elif kind == GATE:
                    _gate(line, silu, out[row, left:right])
                else:
                    _score(line, out[row, left:right])
