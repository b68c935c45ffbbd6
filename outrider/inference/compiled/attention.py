"""Paged attention of the compiled pass, in bfloat16 dot products with float32 sums.

Keys of a block lie in panels of LANES tokens, in pairs along the head size; values in panels of LANES numbers, in
pairs along the tokens; so scores and mixtures are the same dot-product tiles as the linear layers. A row's mixture is
one chain over its keys, and keys that it does not see have the weight zero, which changes no sum: so its bits do not
depend on its neighbours (design I1). Zero times infinity would; a block that holds such a thing is copied without it.

It knows block tables and positions, not sessions. Shapes as in ``kernels``; a tile is up to TILE rows of one session.
"""

from typing import Any

import numpy as np

from outrider.inference.attention_cpu import first_key
from outrider.inference.compiled import artefacts
from outrider.inference.compiled.arithmetic import dot, narrow
from outrider.inference.compiled.intrinsics import fetch_add, prefetch
from outrider.inference.compiled.softmax import softmax
from outrider.inference.compiled.tile import PANELS, TILE_ROWS
from outrider.inference.compiled.vectors import LANES

TILE = 16
"""Most query rows of a tile; they share the walk over the session's blocks."""

_EXPONENT = np.uint16(0x7F80)
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
def _copy(source: Any, into: Any) -> None:
    for i in range(into.shape[0]):
        into[i] = source[i]


@_jit
def _load_queries(queries: Any, row0: Any, rows: Any, head: Any, group: Any, packed: Any) -> None:
    """The tile's queries under one key/value head, side by side: line r is query r % group of row r // group."""
    for row in range(rows):
        for one in range(group):
            _copy(queries[row0 + row, head * group + one], packed[row * group + one])


@_jit
def _score_block(packed: Any, first: Any, last: Any, keys: Any, scores: Any, origin: Any) -> None:
    """scores[first:last, origin:origin + B] = queries . keys of one block [B / LANES, D / 2, LANES, 2]."""
    pairs, stride = keys.shape[1], scores.shape[1]
    for row in range(first, last, TILE_ROWS):
        rows = min(TILE_ROWS, last - row)
        for panel in range(0, keys.shape[0], PANELS):
            panels = keys[panel:].ctypes.data
            into = scores[row, origin + panel * LANES :].ctypes.data
            dot(rows, packed[row:].ctypes.data, pairs, panels, pairs, into, stride, 0)


@_jit
def _clear(line: Any) -> None:
    for i in range(line.shape[0]):
        line[i] = 0


@_jit
def _mix(weights: Any, first: Any, last: Any, origin: Any, values: Any, mixed: Any) -> None:
    """mixed[first:last] += weights of one block's keys . its values; weights of keys that a row does not see are 0."""
    pairs, stride = values.shape[1], weights.shape[1] // 2
    for row in range(first, last, TILE_ROWS):
        rows = min(TILE_ROWS, last - row)
        inputs = weights[row, origin:].ctypes.data
        for panel in range(0, values.shape[0], PANELS):
            panels = values[panel:].ctypes.data
            into = mixed[row, panel * LANES :].ctypes.data
            dot(rows, inputs, stride, panels, pairs, into, mixed.shape[1], 1)


@_jit
def _finite(values: Any) -> Any:
    """Whether no number of a block is infinite or NaN, seen or not."""
    flat, worst = values.reshape(-1), np.uint16(0)
    for i in range(flat.shape[0]):
        worst = max(worst, np.uint16(flat[i] & _EXPONENT))
    return worst != _EXPONENT


@_jit
def _mask(values: Any, begin: Any, end: Any, masked: Any) -> None:
    """A copy of a block's values in which keys outside begin .. end - 1 are zero, whatever lay there."""
    for group in range(values.shape[0]):
        for pair in range(values.shape[1]):
            for lane in range(LANES):
                for side in range(2):
                    seen = begin <= 2 * pair + side < end
                    masked[group, pair, lane, side] = values[group, pair, lane, side] if seen else np.uint16(0)


@_jit
def _mix_block(
    weights: Any, mixed: Any, values: Any, origin: Any, size: Any, start: Any, rows: Any, group: Any, window: Any,
    masked: Any,
) -> None:  # fmt: skip
    """Add one block to every row of the tile that sees some of it; rows start .. start + rows - 1 are positions.

    Zero times what a row does not see is zero, unless that is infinite or NaN: then each row mixes a copy without it.
    """
    first = max(0, origin - start)
    whole = start >= origin + size - 1 and (window <= 0 or start + rows - 1 < origin + window)
    if whole or _finite(values):
        _mix(weights, first * group, rows * group, origin, values, mixed)
        return
    for row in range(first, rows):
        position = start + row
        _mask(values, max(first_key(position, window) - origin, 0), position + 1 - origin, masked)
        _mix(weights, row * group, (row + 1) * group, origin, masked, mixed)


@_jit
def _ask_for(array: Any) -> None:
    """Prefetch a block of one head: blocks lie anywhere, and the processor does not guess where."""
    base = array.ctypes.data
    for line in range(0, array.size * 2, 64):
        prefetch(base + line)


@_jit
def _weigh(scratch: Any, rows: Any, start: Any, group: Any, left: Any, right: Any, scale: Any, window: Any) -> None:
    """Turn scores into weights, 0 for keys from ``left`` to ``right`` that a line does not see, and sum them."""
    scores, bits, weights, exponents, _, _, lanes, totals, _ = scratch
    for row in range(rows):
        first, end = first_key(start + row, window), start + row + 1
        for line in range(row * group, (row + 1) * group):
            _clear(weights[line, left:first])
            _clear(weights[line, end:right])
            totals[line] = softmax(scores, bits, weights, exponents, lanes, line, first, end, scale)


@_jit
def _divide(mixed: Any, total: Any, out: Any) -> None:
    for d in range(out.shape[0]):
        out[d] = narrow(mixed[d] / total)


@_jit
def _attend_tile(
    queries: Any, keys: Any, values: Any, out: Any, table: Any, row0: Any, rows: Any, start: Any, head: Any, group: Any,
    scale: Any, window: Any, scratch: Any,
) -> None:  # fmt: skip
    """Attention of one tile under one key/value head."""
    scores, _, weights, _, packed, mixed, _, totals, masked = scratch
    size = keys.shape[2] * LANES
    count = rows * group
    blocks = range(first_key(start, window) // size, (start + rows - 1) // size + 1)
    _load_queries(queries, row0, rows, head, group, packed)
    for block in blocks:
        seeing = max(0, block * size - start) * group
        if block + 1 < blocks.stop:
            _ask_for(keys[table[block + 1], head])
        _ask_for(values[table[block], head])
        _score_block(packed, seeing, count, keys[table[block], head], scores, block * size)
    _weigh(scratch, rows, start, group, blocks.start * size, blocks.stop * size, scale, window)
    for line in range(count):
        _clear(mixed[line])
    for block in blocks:
        _mix_block(weights, mixed, values[table[block], head], block * size, size, start, rows, group, window, masked)
    for row in range(rows):
        for one in range(group):
            line = row * group + one
            _divide(mixed[line], totals[line], out[row0 + row, head * group + one])


@_jit
def _scratch(lines: Any, padded: Any, size: Any, block_size: Any) -> Any:
    """Working memory of one thread: scores, their bits, rounded weights, exponents, queries, mixtures, lanes, totals
    of the lines, and a block of values."""
    scores = np.empty((lines, padded), np.float32)
    return (
        scores,
        scores.view(np.int32),
        np.empty((lines, padded), np.uint16),
        np.empty(padded, np.int32),
        np.empty((lines, size), np.uint16),
        np.empty((lines, size), np.float32),
        np.empty(LANES, np.float32),
        np.empty(lines, np.float32),
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
