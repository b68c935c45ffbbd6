"""A Llama-like forward pass in bfloat16, as one function that a team of threads runs together.

Every thread of the team calls ``run_pass`` with its number; work is split by outputs or by rows and the team
meets at a barrier between stages. No result depends on the split, on the number of threads or on the other rows of
the pass: each output is one chain of additions in a fixed order (design I1).

It knows arrays, not models or sessions. bfloat16 travels as uint16, pairs of it as int32.
T rows, C hidden size, I inner size, H query heads, V key/value heads, D head size, L layers, N blocks of B tokens,
W wanted rows, E entries of the head. Weights are as in ``products``.
"""

from typing import Any

import numpy as np

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.attention import attend_shared
from outrider.inference.compiled.products import ADD, GATE, SCORE, STORE, product
from outrider.inference.compiled.rows import norm, place
from outrider.inference.compiled.team import COUNTER_STEP, NEXT_ITEM, meet, share
from outrider.inference.compiled.tile import PANELS, TILE_ROWS
from outrider.inference.compiled.vectors import LANES

_jit: Any = artefacts.jit


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
    rows = tokens.shape[0]
    first, last = share(rows, member, members)
    flat_mixed = mixed.reshape(mixed.shape[0], -1)
    flat_attended = attended.reshape(attended.shape[0], -1)
    sums, lanes = np.empty((TILE_ROWS, PANELS * LANES), np.float32), np.empty(LANES, np.float32)
    rotated = np.empty(mixed.shape[2], np.float32)
    for t in range(first, last):
        hidden[t] = embedding[tokens[t]]
    for layer in range(qkv.shape[0]):
        for t in range(first, last):
            norm(hidden[t], norms_1[layer], epsilon, lanes, normed[t])
        meet(team, members)
        product(normed, rows, qkv[layer], STORE, bias[layer], silu, flat_mixed, sums, member, members)
        meet(team, members)
        for t in range(first, last):
            place(mixed[t], positions[t], blocks[t], offsets[t], cos, sin, keys[layer], values[layer], rotated)
        meet(team, members)
        counter = team.ctypes.data + (NEXT_ITEM + layer * COUNTER_STEP) * 8
        attend_shared(mixed, keys[layer], values[layer], attended, segments, tables, scale, window, counter)
        meet(team, members)
        product(flat_attended, rows, output[layer], ADD, bias[layer], silu, hidden, sums, member, members)
        meet(team, members)
        for t in range(first, last):
            norm(hidden[t], norms_2[layer], epsilon, lanes, normed[t])
        meet(team, members)
        product(normed, rows, gate_up[layer], GATE, bias[layer], silu, inner, sums, member, members)
        meet(team, members)
        product(inner, rows, down[layer], ADD, bias[layer], silu, hidden, sums, member, members)
        meet(team, members)
    first, last = share(wanted.shape[0], member, members)
    for w in range(first, last):
        norm(hidden[wanted[w]], last_norm, epsilon, lanes, normed[w])
    meet(team, members)
    product(normed, wanted.shape[0], head, SCORE, bias[0], silu, logits, sums, member, members)
