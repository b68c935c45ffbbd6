"""What a layer does to one row: norms, rotary positions, and its place in the cache.

Rounding follows transformers' modules, which round to bfloat16 after each operation. It knows no other rows.
"""

from typing import Any

import numpy as np

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.arithmetic import narrow, widen
from outrider.inference.compiled.attention import place_key_and_value
from outrider.inference.compiled.vectors import LANES

_ZERO = np.float32(0.0)
_jit: Any = artefacts.jit


@_jit
def _mean_square(row: Any, lanes: Any) -> Any:
    """Mean of the squares: LANES interleaved partial sums, then lane by lane."""
    for lane in range(LANES):
        lanes[lane] = _ZERO
    whole = row.shape[0] // LANES
    for step in range(whole):
        part = row[step * LANES : (step + 1) * LANES]
        for lane in range(LANES):
            number = widen(part[lane])
            lanes[lane] += number * number
    for i in range(whole * LANES, row.shape[0]):
        lanes[i - whole * LANES] += widen(row[i]) * widen(row[i])
    total = _ZERO
    for lane in range(LANES):
        total += lanes[lane]
    return total / np.float32(row.shape[0])


@_jit
def norm(row: Any, weight: Any, epsilon: Any, lanes: Any, out: Any) -> None:
    """RMS norm of one row (Zhang and Sennrich, arXiv 1910.07467)."""
    factor = np.float32(1.0) / np.sqrt(_mean_square(row, lanes) + epsilon)
    for i in range(out.shape[0]):
        out[i] = narrow(widen(weight[i]) * widen(narrow(widen(row[i]) * factor)))


@_jit
def _rotate(head: Any, cos: Any, sin: Any, scratch: Any) -> None:
    """Rotary position of one head in place: x * cos + (-second half, first half) * sin."""
    half = head.shape[0] // 2
    low, high = head[:half], head[half:]
    for i in range(half):
        scratch[i] = widen(narrow(widen(low[i]) * widen(cos[i]))) + widen(narrow(-widen(high[i]) * widen(sin[i])))
    for i in range(half):
        high[i] = narrow(
            widen(narrow(widen(high[i]) * widen(cos[half + i]))) + widen(narrow(widen(low[i]) * widen(sin[half + i])))
        )
    for i in range(half):
        low[i] = narrow(scratch[i])


@_jit
def place(
    mixed: Any, position: Any, block: Any, offset: Any, cos: Any, sin: Any, keys: Any, values: Any, scratch: Any
) -> None:
    """Rotate one row's queries and keys, mixed [H + 2V, D], and store its keys and values."""
    kv_heads = keys.shape[1]
    rotated = mixed.shape[0] - kv_heads
    for head in range(rotated):
        _rotate(mixed[head], cos[position], sin[position], scratch)
    if block < 0:
        return
    for head in range(kv_heads):
        place_key_and_value(
            mixed[rotated - kv_heads + head], mixed[rotated + head], offset, keys[block, head], values[block, head]
        )
