"""Paged attention on a CPU: one compiled kernel, bit-equal for any number of rows.

Each query row walks its own keys 0..position in order, in fp32, and rounds once at the end. Nothing in
that walk depends on which other rows share the pass, so decode, verify, prefill and rebuild agree to the
bit by construction (design I1). It keeps strict IEEE order: no fast-math, no fused multiply-add, an
``exp`` made of adds and multiplies, so vectorised and scalar machine code give the same bits.

It does not know sessions, models or torch: it sees bit views of flat caches, block tables and positions.
bfloat16 travels as uint16 (numba has no such type) and float32 as uint32; ``shift`` tells them apart:
16 places the bits of a bfloat16 in the upper half of a float32, 0 leaves a float32 as it is.

The helpers begin by leaving when an index is negative: it never is, but numba wraps negative indices, and
only a compiler that knows the sign vectorises the loops (measured: up to 10 times faster).

Shapes: T rows, H query heads, V key/value heads, D head size, N blocks of B tokens, S segments.
"""

from typing import Any

import numpy as np

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.softmax import exp_row, row_max, row_sum
from outrider.inference.compiled.vectors import LANES

TILE = 16
"""Query rows that share one conversion of a key block to fp32."""

_jit: Any = artefacts.jit

_ZERO = np.float32(0.0)


@_jit
def _widen(cache: Any, block: Any, head: Any, scratch_bits: Any, shift: Any) -> None:
    """Copy one head of one block into the fp32 scratch."""
    if block < 0 or head < 0:
        return
    rows, columns = scratch_bits.shape
    for i in range(rows):
        for j in range(columns):
            scratch_bits[i, j] = np.uint32(cache[block, head, i, j]) << shift


@_jit
def _dot_block(queries: Any, row: Any, keys: Any, scores: Any, offset: Any) -> None:
    """scores[row, offset:offset+B] = queries[row] . keys, summed over D strictly from 0 upwards."""
    if row < 0 or offset < 0:
        return
    size, block_size = keys.shape
    whole = size // 8 * 8
    for j in range(block_size):
        scores[row, offset + j] = _ZERO
    for d in range(0, whole, 8):
        q0, q1, q2, q3 = queries[row, d], queries[row, d + 1], queries[row, d + 2], queries[row, d + 3]
        q4, q5, q6, q7 = queries[row, d + 4], queries[row, d + 5], queries[row, d + 6], queries[row, d + 7]
        for j in range(block_size):
            s = scores[row, offset + j] + q0 * keys[d, j] + q1 * keys[d + 1, j] + q2 * keys[d + 2, j]
            s = s + q3 * keys[d + 3, j] + q4 * keys[d + 4, j] + q5 * keys[d + 5, j]
            scores[row, offset + j] = s + q6 * keys[d + 6, j] + q7 * keys[d + 7, j]
    for d in range(whole, size):
        for j in range(block_size):
            scores[row, offset + j] += queries[row, d] * keys[d, j]


@_jit
def _add_block(weights: Any, row: Any, offset: Any, begin: Any, end: Any, values: Any, sums: Any) -> None:
    """sums[row] += weights[row, offset+j] * values[j] for j in begin..end, strictly in that order."""
    if row < 0 or begin < 0:
        return
    size = values.shape[1]
    j = begin
    while j + 8 <= end:
        at = offset + j
        w0, w1, w2, w3 = weights[row, at], weights[row, at + 1], weights[row, at + 2], weights[row, at + 3]
        w4, w5, w6, w7 = weights[row, at + 4], weights[row, at + 5], weights[row, at + 6], weights[row, at + 7]
        for d in range(size):
            s = sums[row, d] + w0 * values[j, d] + w1 * values[j + 1, d] + w2 * values[j + 2, d]
            s = s + w3 * values[j + 3, d] + w4 * values[j + 4, d] + w5 * values[j + 5, d]
            sums[row, d] = s + w6 * values[j + 6, d] + w7 * values[j + 7, d]
        j += 8
    while j < end:
        for d in range(size):
            sums[row, d] += weights[row, offset + j] * values[j, d]
        j += 1


@_jit
def _round_row(sums: Any, bits: Any, row: Any, total: Any, out: Any, out_row: Any, head: Any, shift: Any) -> None:
    """out = sums / total, rounded once to the cache's dtype (nearest even for bfloat16)."""
    size = sums.shape[1]
    for d in range(size):
        sums[row, d] = sums[row, d] / total
    for d in range(size):
        u = bits[row, d]
        if shift:
            u = (u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        out[out_row, head, d] = u


@_jit
def write_rows(new_keys: Any, new_values: Any, keys: Any, values: Any, blocks: Any, offsets: Any) -> None:
    """Store each row's key [V, D] and value [V, D] at its block and offset; rows of block -1 are padding."""
    rows, heads, size = new_keys.shape
    for t in range(rows):
        if blocks[t] < 0:
            continue
        for h in range(heads):
            for d in range(size):
                keys[blocks[t], h, d, offsets[t]] = new_keys[t, h, d]
                values[blocks[t], h, offsets[t], d] = new_values[t, h, d]


@_jit
def first_key(position: Any, window: Any) -> Any:
    """First key that a row at a position sees."""
    return max(0, position - window + 1) if window > 0 else 0


@_jit
def _load_queries(
    queries: Any, bits: Any, scaled: Any, row0: Any, rows: Any, head: Any, group: Any, scale: Any, shift: Any
) -> None:
    """The tile's queries of one key/value head as fp32, scaled; row r of the scratch is (row, head) of the tile."""
    size = queries.shape[2]
    for r in range(rows * group):
        for d in range(size):
            bits[r, d] = np.uint32(queries[row0 + r // group, head * group + r % group, d]) << shift
        for d in range(size):
            scaled[r, d] = scaled[r, d] * scale


@_jit
def _softmax_row(scores: Any, bits: Any, exponents: Any, lanes: Any, row: Any, first: Any, end: Any) -> Any:
    """Turn scores into unnormalised weights; returns their sum."""
    highest = row_max(scores, row, first, end, lanes)
    exp_row(scores, bits, exponents, row, first, end, highest)
    return row_sum(scores, row, first, end, lanes)


@_jit
def _mix_block(
    scores: Any, sums: Any, values: Any, origin: Any, start: Any, rows: Any, group: Any, window: Any
) -> None:
    """Add one block's values to every row of the tile that sees some of its keys."""
    block_size = values.shape[0]
    for r in range(rows * group):
        position = start + r // group
        begin = max(first_key(position, window) - origin, 0)
        end = min(block_size, position + 1 - origin)
        if begin < end:
            _add_block(scores, r, origin, begin, end, values, sums)


@_jit
def attend(
    queries: Any, keys: Any, values: Any, out: Any, segments: Any, tables: Any, scale: Any, window: Any, shift: Any
) -> None:
    """Causal attention of packed rows over paged caches, in place into ``out``.

    queries, out [T, H, D]; keys [N, V, D, B]; values [N, V, B, D]; segments [S, 3] of (first row, rows,
    position of the first row); tables [S, longest] of block ids. ``window`` > 0 lets a row see only its
    last ``window`` keys, itself included; 0 means all.
    """
    size = queries.shape[2]
    kv_heads, block_size = keys.shape[1], keys.shape[3]
    group = queries.shape[1] // kv_heads
    longest = 0
    for s in range(segments.shape[0]):
        longest = max(longest, segments[s, 1] + segments[s, 2])
    padded = (longest + block_size - 1) // block_size * block_size
    scores = np.empty((TILE * group, padded), np.float32)
    score_bits = scores.view(np.int32)
    query_bits = np.empty((TILE * group, size), np.uint32)
    scaled = query_bits.view(np.float32)
    sums = np.empty((TILE * group, size), np.float32)
    sum_bits = sums.view(np.uint32)
    totals = np.empty(TILE * group, np.float32)
    lanes = np.empty(LANES, np.float32)
    exponents = np.empty(padded, np.int32)
    key_bits = np.empty((size, block_size), np.uint32)
    key_block = key_bits.view(np.float32)
    value_bits = np.empty((block_size, size), np.uint32)
    value_block = value_bits.view(np.float32)
    for s in range(segments.shape[0]):
        for begin in range(0, segments[s, 1], TILE):
            row0, start = segments[s, 0] + begin, segments[s, 2] + begin
            rows = min(TILE, segments[s, 1] - begin)
            blocks = range(first_key(start, window) // block_size, (start + rows - 1) // block_size + 1)
            for head in range(kv_heads):
                _load_queries(queries, query_bits, scaled, row0, rows, head, group, scale, shift)
                for block in blocks:
                    _widen(keys, tables[s, block], head, key_bits, shift)
                    for r in range(rows * group):
                        if start + r // group >= block * block_size:
                            _dot_block(scaled, r, key_block, scores, block * block_size)
                for r in range(rows * group):
                    position = start + r // group
                    first = first_key(position, window)
                    totals[r] = _softmax_row(scores, score_bits, exponents, lanes, r, first, position + 1)
                sums[:] = _ZERO
                for block in blocks:
                    _widen(values, tables[s, block], head, value_bits, shift)
                    _mix_block(scores, sums, value_block, block * block_size, start, rows, group, window)
                for r in range(rows * group):
                    query_head = head * group + r % group
                    _round_row(sums, sum_bits, r, totals[r], out, row0 + r // group, query_head, shift)
