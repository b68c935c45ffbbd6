"""Paged attention of the compiled pass, in bfloat16 dot products with float32 sums.

Keys of a block lie in panels of LANES tokens, in pairs along the head size; values in panels of LANES numbers, in
pairs along the tokens; so scores and mixtures are the
same dot-product tiles as the linear layers. A row mixes a block as it lies when it sees all of its keys, and
a copy with zeros for the others when it does not: which of the two depends on the row's position alone, so a row's bits
do not depend on its neighbours (design I1), and what lies behind a row's last key, stale or another row's, is never
multiplied.

It knows block tables and positions, not sessions. Shapes as in ``kernels``; a tile is up to TILE rows of one session.
"""

from typing import Any

import numpy as np

from outrider.inference.attention_cpu import exp_row, first_key, row_max, row_sum
from outrider.inference.compiled import artefacts
from outrider.inference.compiled.arithmetic import dot, narrow, widen
from outrider.inference.compiled.intrinsics import LANES, PANELS, TILE_ROWS, fetch_add, prefetch

TILE = 16
"""Most query rows of a tile; they share the walk over the session's blocks."""

_WIDTH = LANES * PANELS
_jit: Any = artefacts.jit


@_jit
def place_key_and_value(key: Any, value: Any, offset: Any, keys: Any, values: Any) -> None:
    """Store key and value [D] of one token at ``offset`` of a block."""
    panel, lane = offset // LANES, offset % LANES
    column = keys[panel]
    for pair in range(column.shape[0]):
        column[pair, lane, 0] = key[2 * pair]
        column[pair, lane, 1] = key[2 * pair + 1]
    pair, side = offset // 2, offset % 2
    for group in range(values.shape[0]):
        into, numbers = values[group, pair], value[group * LANES : (group + 1) * LANES]
        for d in range(LANES):
            into[d, side] = numbers[d]


@_jit
def _load_queries(queries: Any, row0: Any, rows: Any, head: Any, group: Any, packed: Any) -> None:
    """The tile's queries under one key/value head, side by side: line r is query r % group of row r // group."""
    for r in range(rows * group):
        packed[r] = queries[row0 + r // group, head * group + r % group]


@_jit
def _score_block(packed: Any, first: Any, last: Any, keys: Any, scores: Any, origin: Any, sums: Any) -> None:
    """scores[first:last, origin:origin + B] = queries . keys of one block [B / LANES, D / 2, LANES, 2]."""
    pairs = keys.shape[1]
    for row in range(first, last, TILE_ROWS):
        rows = min(TILE_ROWS, last - row)
        for panel in range(0, keys.shape[0], PANELS):
            dot(rows, packed[row:].ctypes.data, pairs, keys[panel:].ctypes.data, pairs, sums.ctypes.data)
            left = origin + panel * LANES
            for r in range(rows):
                scores[row + r, left : left + _WIDTH] = sums[r]


@_jit
def _softmax(
    scores: Any, bits: Any, weights: Any, exponents: Any, lanes: Any, row: Any, first: Any, end: Any, scale: Any
) -> Any:
    """Unnormalised weights of one row, rounded to bfloat16, in both arrays; returns their sum."""
    line = scores[row, first:end]
    for i in range(line.shape[0]):
        line[i] = line[i] * scale
    highest = row_max(scores, row, first, end, lanes)
    exp_row(scores, bits, exponents, row, first, end, highest)
    rounded = weights[row, first:end]
    for i in range(line.shape[0]):
        rounded[i] = narrow(line[i])
        line[i] = widen(rounded[i])
    return row_sum(scores, row, first, end, lanes)


@_jit
def _mix_whole(weights: Any, first: Any, last: Any, origin: Any, values: Any, mixed: Any, sums: Any) -> None:
    """mixed[first:last] += weights of one block's keys . its values, for rows that see the whole block."""
    pairs, stride = values.shape[1], weights.shape[1] // 2
    for row in range(first, last, TILE_ROWS):
        rows = min(TILE_ROWS, last - row)
        inputs = weights[row, origin:].ctypes.data
        for panel in range(0, values.shape[0], PANELS):
            dot(rows, inputs, stride, values[panel:].ctypes.data, pairs, sums.ctypes.data)
            for r in range(rows):
                into, total = mixed[row + r, panel * LANES : panel * LANES + _WIDTH], sums[r]
                for d in range(_WIDTH):
                    into[d] += total[d]


@_jit
def _mask(values: Any, begin: Any, end: Any, masked: Any) -> None:
    """A copy of a block's values in which keys outside begin .. end - 1 are zero, whatever lay there."""
    for group in range(values.shape[0]):
        for pair in range(values.shape[1]):
            into = masked[group, pair]
            if begin <= 2 * pair and 2 * pair + 2 <= end:
                into[:] = values[group, pair]
            else:
                into[:] = np.uint16(0)
                for side in range(2):
                    if begin <= 2 * pair + side < end:
                        into[:, side] = values[group, pair, :, side]


@_jit
def _mix_part(
    weights: Any, first: Any, last: Any, origin: Any, size: Any, begin: Any, end: Any, values: Any, mixed: Any,
    sums: Any, masked: Any,
) -> None:  # fmt: skip
    """Like ``_mix_whole`` for rows that see only keys begin .. end - 1 of the block."""
    _mask(values, begin, end, masked)
    for row in range(first, last):
        weights[row, origin : origin + begin] = np.uint16(0)
        weights[row, origin + end : origin + size] = np.uint16(0)
    _mix_whole(weights, first, last, origin, masked, mixed, sums)


@_jit
def _mix_block(
    weights: Any, mixed: Any, values: Any, origin: Any, size: Any, start: Any, rows: Any, group: Any, window: Any,
    sums: Any, masked: Any,
) -> None:  # fmt: skip
    """Add one block to every row of the tile that sees some of it; rows start .. start + rows - 1 are positions."""
    first_whole = max(start, origin + size - 1)
    last_whole = start + rows - 1 if window <= 0 else min(start + rows - 1, origin + window - 1)
    if first_whole <= last_whole:
        _mix_whole(
            weights, (first_whole - start) * group, (last_whole - start + 1) * group, origin, values, mixed, sums
        )
    for position in range(start, start + rows):
        begin = max(first_key(position, window) - origin, 0)
        end = min(size, position + 1 - origin)
        if begin < end and not first_whole <= position <= last_whole:
            line = (position - start) * group
            _mix_part(weights, line, line + group, origin, size, begin, end, values, mixed, sums, masked)


@_jit
def _ask_for(array: Any) -> None:
    """Prefetch a block of one head: blocks lie anywhere, and the processor does not guess where."""
    base = array.ctypes.data
    for line in range(0, array.size * 2, 64):
        prefetch(base + line)


@_jit
def _attend_tile(
    queries: Any, keys: Any, values: Any, out: Any, table: Any, row0: Any, rows: Any, start: Any, head: Any, group: Any,
    scale: Any, window: Any, scratch: Any,
) -> None:  # fmt: skip
    """Attention of one tile under one key/value head."""
    scores, score_bits, weights, exponents, packed, mixed, sums, lanes, masked = scratch
    size = keys.shape[2] * LANES
    count = rows * group
    blocks = range(first_key(start, window) // size, (start + rows - 1) // size + 1)
    _load_queries(queries, row0, rows, head, group, packed)
    for block in blocks:
        seeing = max(0, block * size - start) * group
        if block + 1 < blocks.stop:
            _ask_for(keys[table[block + 1], head])
        _ask_for(values[table[block], head])
        _score_block(packed, seeing, count, keys[table[block], head], scores, block * size, sums)
    mixed[:count] = np.float32(0.0)
    totals = lanes[LANES:]
    for r in range(count):
        position = start + r // group
        first = first_key(position, window)
        totals[r] = _softmax(scores, score_bits, weights, exponents, lanes, r, first, position + 1, scale)
    for block in blocks:
        _mix_block(
            weights, mixed, values[table[block], head], block * size, size, start, rows, group, window, sums, masked
        )
    for r in range(count):
        into = out[row0 + r // group, head * group + r % group]
        for d in range(into.shape[0]):
            into[d] = narrow(mixed[r, d] / totals[r])


@_jit
def _scratch(lines: Any, padded: Any, size: Any, block_size: Any) -> Any:
    """Working memory of one thread: scores, their bits, rounded weights, exponents, queries, mixtures, sums, lanes
    followed by the totals of the rows, and a block of values."""
    scores = np.empty((lines, padded), np.float32)
    return (
        scores,
        scores.view(np.int32),
        np.empty((lines, padded), np.uint16),
        np.empty(padded, np.int32),
        np.empty((lines, size), np.uint16),
        np.empty((lines, size), np.float32),
        np.empty((TILE_ROWS, PANELS * LANES), np.float32),
        np.empty(LANES + lines, np.float32),
        np.empty((size // LANES, block_size // 2, LANES, 2), np.uint16),
    )


@_jit
def _longest(segments: Any) -> Any:
    """Keys of the longest session after this pass."""
    longest = 0
    for s in range(segments.shape[0]):
        longest = max(longest, segments[s, 1] + segments[s, 2])
    return longest


@_jit
def attend_shared(
    queries: Any, keys: Any, values: Any, out: Any, segments: Any, tables: Any, scale: Any, window: Any, counter: Any
) -> None:
    """Causal attention of packed rows, by threads that share the work.

    Each takes the next tile and head from the int64 at the address ``counter``, which starts at 0. queries
    [T, H + more, D]; out [T, H, D]; keys [N, V, B / LANES, D / 2, LANES, 2]; values [N, V, D / LANES, B / 2, LANES, 2];
    segments [S, 3] of (first row, rows, position of the first row); tables [S, longest] of block ids. ``window`` > 0
    lets a row see only its last ``window`` keys, itself included; 0 means all.
    """
    block_size, kv_heads = keys.shape[2] * LANES, keys.shape[1]
    group = out.shape[1] // kv_heads
    padded = (_longest(segments) + block_size - 1) // block_size * block_size
    scratch = _scratch(TILE * group, padded, out.shape[2], block_size)
    mine, item = fetch_add(counter, 1), 0
    for s in range(segments.shape[0]):
        for begin in range(0, segments[s, 1], TILE):
            row0, start = segments[s, 0] + begin, segments[s, 2] + begin
            rows = min(TILE, segments[s, 1] - begin)
            for head in range(kv_heads):
                if item == mine:
                    _attend_tile(
                        queries, keys, values, out, tables[s], row0, rows, start, head, group, scale, window, scratch
                    )
                    mine = fetch_add(counter, 1)
                item += 1
