"""A Llama-like forward pass in bfloat16, as functions that a team of threads runs together.

Every thread of the team calls ``run_pass`` with its number; work is split by outputs or by rows and the team
meets at a barrier between stages. No result depends on the split, on the number of threads or on the other rows of
the pass: each output is one chain of additions in a fixed order (design I1). Rounding follows transformers'
modules, which round to bfloat16 after each operation.

It knows arrays, not models or sessions. bfloat16 travels as uint16, pairs of it as int32.
T rows, C hidden size, I inner size, H query heads, V key/value heads, D head size, L layers, N blocks of B tokens,
W wanted rows, E entries of the head. Weights are [panels, pairs of columns, LANES].
"""

from typing import Any

import numpy as np

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.arithmetic import dot, narrow, widen
from outrider.inference.compiled.attention import attend_shared, place_key_and_value
from outrider.inference.compiled.intrinsics import (
    LANES,
    PANELS,
    TILE_ROWS,
    fetch_add,
    give_core_away,
    load_shared,
    store_shared,
)

ARRIVED, GENERATION, NEXT_ITEM = 0, 16, 32
"""Where the team's counters lie in its array of int64, each on a cache line of its own. The items of layer i
are counted at NEXT_ITEM + i * COUNTER_STEP."""
COUNTER_STEP = 8

_SPINS = 2000
_ZERO = np.float32(0.0)

_jit: Any = artefacts.jit


@_jit
def meet(team: Any, members: Any) -> None:
    """Wait until every member of the team is here. A member that waits long gives its core away."""
    if members == 1:
        return
    base = team.ctypes.data
    generation = load_shared(base + GENERATION * 8)
    if fetch_add(base + ARRIVED * 8, 1) == members - 1:
        store_shared(base + ARRIVED * 8, 0)
        store_shared(base + GENERATION * 8, generation + 1)
        return
    spins = 0
    while load_shared(base + GENERATION * 8) == generation:
        spins += 1
        if spins > _SPINS:
            give_core_away()


@_jit
def _share(count: Any, member: Any, members: Any) -> Any:
    """First and last + 1 of the items that a member does."""
    return count * member // members, count * (member + 1) // members


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
    """out = silu(gate) * up; the tile's first panel is the gate, its second is up."""
    for i in range(out.shape[0]):
        out[i] = narrow(widen(silu[narrow(sums[i])]) * widen(narrow(sums[LANES + i])))


@_jit
def _score(sums: Any, out: Any) -> None:
    """Logits: rounded to bfloat16, given as float32."""
    for i in range(out.shape[0]):
        out[i] = widen(narrow(sums[i]))


STORE, ADD, GATE = 0, 1, 2


@_jit
def _product(
    inputs: Any,
    rows: Any,
    weights: Any,
    kind: Any,
    bias: Any,
    silu: Any,
    out: Any,
    sums: Any,
    member: Any,
    members: Any,
) -> None:
    """inputs [rows, 2 * pairs] times weights, ended as ``kind`` says, into out [rows, outputs]."""
    pairs = weights.shape[1]
    width = LANES if kind == GATE else LANES * PANELS
    first, last = _share(weights.shape[0] // PANELS, member, members)
    for tile in range(first, last):
        panel = weights[tile * PANELS :].ctypes.data
        left = tile * width
        right = min(left + width, out.shape[1])
        for row in range(0, rows, TILE_ROWS):
            count = min(TILE_ROWS, rows - row)
            dot(count, inputs[row:].ctypes.data, pairs, panel, pairs, sums.ctypes.data)
            for r in range(count):
                if kind == STORE:
                    _store(sums[r], bias[left:right], out[row + r, left:right])
                elif kind == ADD:
                    _add(sums[r], out[row + r, left:right])
                else:
                    _gate(sums[r], silu, out[row + r, left:right])


@_jit
def _logits(inputs: Any, rows: Any, weights: Any, out: Any, sums: Any, member: Any, members: Any) -> None:
    """inputs [W, C] times the head's weights into out [W, E]."""
    pairs, width = weights.shape[1], LANES * PANELS
    first, last = _share(weights.shape[0] // PANELS, member, members)
    for tile in range(first, last):
        panel = weights[tile * PANELS :].ctypes.data
        left = tile * width
        right = min(left + width, out.shape[1])
        for row in range(0, rows, TILE_ROWS):
            count = min(TILE_ROWS, rows - row)
            dot(count, inputs[row:].ctypes.data, pairs, panel, pairs, sums.ctypes.data)
            for r in range(count):
                _score(sums[r], out[row + r, left:right])


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
def _norm(row: Any, weight: Any, epsilon: Any, lanes: Any, out: Any) -> None:
    """RMS norm of one row (Zhang and Sennrich, arXiv 1910.07467)."""
    factor = np.float32(1.0) / np.sqrt(_mean_square(row, lanes) + epsilon)
    for i in range(out.shape[0]):
        out[i] = narrow(widen(weight[i]) * widen(narrow(widen(row[i]) * factor)))


@_jit
def _norm_rows(
    hidden: Any, rows: Any, weight: Any, epsilon: Any, lanes: Any, out: Any, member: Any, members: Any
) -> None:
    first, last = _share(rows, member, members)
    for t in range(first, last):
        _norm(hidden[t], weight, epsilon, lanes, out[t])


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
def _place(
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


@_jit
def _embed(tokens: Any, table: Any, hidden: Any, member: Any, members: Any) -> None:
    first, last = _share(tokens.shape[0], member, members)
    for t in range(first, last):
        hidden[t] = table[tokens[t]]


@_jit
def run_pass(
    member: Any,
    members: Any,
    team: Any,
    plan: Any,
    model: Any,
    caches: Any,
    scratch: Any,
    logits: Any,
    scale: Any,
    epsilon: Any,
    window: Any,
) -> None:
    """One member's part of a pass.

    plan: (tokens [T], positions [T], segments [S, 3], tables [S, longest], blocks [T], offsets [T], wanted [W]).
    model: (embedding, qkv, qkv bias, output, gate and up, down, first norms, second norms, last norm, head, cos, sin,
    silu of every bfloat16). caches: keys [L, N, V, B / LANES, D / 2, LANES, 2], values
    [L, N, V, D / LANES, B / 2, LANES, 2]. scratch: hidden, normed [R, C],
    mixed [R, H + 2V, D], attended [R, H, D], inner [R, I], for R >= T rows. logits: fp32 [W, E], written.
    """
    tokens, positions, segments, tables, blocks, offsets, wanted = plan
    embedding, qkv, bias, output, gate_up, down, norms_1, norms_2, last_norm, head, cos, sin, silu = model
    keys, values = caches
    hidden, normed, mixed, attended, inner = scratch
    rows, size = tokens.shape[0], mixed.shape[2]
    flat_mixed = mixed.reshape(mixed.shape[0], -1)
    flat_attended = attended.reshape(attended.shape[0], -1)
    sums = np.empty((TILE_ROWS, PANELS * LANES), np.float32)
    lanes = np.empty(LANES, np.float32)
    rotated = np.empty(size, np.float32)
    _embed(tokens, embedding, hidden, member, members)
    meet(team, members)
    for layer in range(qkv.shape[0]):
        _norm_rows(hidden, rows, norms_1[layer], epsilon, lanes, normed, member, members)
        meet(team, members)
        _product(normed, rows, qkv[layer], STORE, bias[layer], silu, flat_mixed, sums, member, members)
        meet(team, members)
        first, last = _share(rows, member, members)
        for t in range(first, last):
            _place(mixed[t], positions[t], blocks[t], offsets[t], cos, sin, keys[layer], values[layer], rotated)
        meet(team, members)
        counter = team.ctypes.data + (NEXT_ITEM + layer * COUNTER_STEP) * 8
        attend_shared(mixed, keys[layer], values[layer], attended, segments, tables, scale, window, counter)
        meet(team, members)
        _product(flat_attended, rows, output[layer], ADD, bias[layer], silu, hidden, sums, member, members)
        meet(team, members)
        _norm_rows(hidden, rows, norms_2[layer], epsilon, lanes, normed, member, members)
        meet(team, members)
        _product(normed, rows, gate_up[layer], GATE, bias[layer], silu, inner, sums, member, members)
        meet(team, members)
        _product(inner, rows, down[layer], ADD, bias[layer], silu, hidden, sums, member, members)
        meet(team, members)
    first, last = _share(wanted.shape[0], member, members)
    for w in range(first, last):
        _norm(hidden[wanted[w]], last_norm, epsilon, lanes, normed[w])
    meet(team, members)
    _logits(normed, wanted.shape[0], head, logits, sums, member, members)
