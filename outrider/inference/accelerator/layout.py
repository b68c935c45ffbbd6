"""A pass as one array of numbers for a device, of a shape that can be had again: grids of sessions by rows.

A grid holds S sessions of up to R rows over n blocks; attention of a grid is one batched product. What a session or a
row lacks to its grid is filled up by rows that write to the spare block and whose results nobody reads. It knows
numpy and neither torch nor models.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.packed import PADDING, Longs, PackedPass


@dataclass(frozen=True, slots=True)
class GridShape:
    """sessions, rows of each, blocks of each. ``end`` above 0: one session of exactly these rows and so many keys."""

    sessions: int
    rows: int
    blocks: int
    end: int = 0


@dataclass(frozen=True, slots=True)
class PassShape:
    """rows T, blocks that are begun F, rows W whose logits are computed, and the grids. ``framed`` shapes come again
    and are worth a graph."""

    rows: int
    fresh: int
    heads: int
    grids: tuple[GridShape, ...]
    framed: bool = False

    def parts(self) -> Iterator[tuple[int, ...]]:
        """Shapes of the arrays in the order of ``Layout.flat``."""
        yield from [(self.rows,)] * 4
        yield (self.fresh,)
        yield (self.heads,)
        for grid in self.grids:
            yield from [(grid.sessions, grid.rows)] * 2
            yield (grid.sessions, grid.blocks)

    @property
    def size(self) -> int:
        """Numbers in ``Layout.flat``."""
        return sum(map(math.prod, self.parts()))


@dataclass(frozen=True, slots=True)
class Layout:
    """``flat`` holds tokens, positions, slots and place [T], fresh [F], wanted [W], and per grid rows and positions
    [S, R] and tables [S, n]. Logits ``pick`` [P] of the W are those of the pass's wanted rows ``answers`` [P]."""

    shape: PassShape
    flat: Longs
    pick: Longs
    answers: Longs


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of one session: first row in the layout, rows, first position, blocks of its keys."""

    first: int
    rows: int
    start: int
    blocks: Longs

    @property
    def end(self) -> int:
        """Keys that its last row sees."""
        return self.start + self.rows


def bucket(count: int, least: int = 1) -> int:
    """The next power of two, so that few shapes occur."""
    return max(least, 1 << (count - 1).bit_length())


def pieces(plan: PackedPass) -> list[Piece]:
    """The segments of a pass."""
    return [
        Piece(first, rows, start, table[: -(-(start + rows) // BLOCK_SIZE)].astype(np.int64))
        for (first, rows, start), table in zip(plan.segments.tolist(), plan.tables, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Span:
    """Rows ``first`` to ``end`` of a pass, filled up to ``rows``; ``fresh`` is the room for blocks that are begun."""

    first: int
    end: int
    rows: int
    fresh: int


def fresh_blocks(plan: PackedPass, first: int, end: int) -> Longs:
    """Blocks whose first place is written by these rows; what an earlier owner left in them goes."""
    blocks, offsets = plan.blocks[first:end], plan.offsets[first:end]
    begun: Longs = blocks[(offsets == 0) & (blocks != PADDING)].astype(np.int64)
    return begun


def lay_out(
    plan: PackedPass, span: Span, grids: Sequence[tuple[GridShape, Sequence[Piece]]], wanted: Longs, spare: int,
    framed: bool,
) -> tuple[PassShape, Longs]:  # fmt: skip
    """The shape and the numbers of some rows of a pass. Rows of pieces and ``wanted`` count from the span's first."""
    blocks = plan.blocks[span.first : span.end].astype(np.int64)
    offsets = plan.offsets[span.first : span.end].astype(np.int64)
    slots = np.where(blocks == PADDING, spare, blocks) * BLOCK_SIZE + offsets
    place = np.zeros(span.rows, np.int64)
    arrays: list[Longs] = []
    offset = 0
    for grid, members in grids:
        arrays.extend(_grid(grid, members, spare))
        for index, piece in enumerate(members):
            at = offset + index * grid.rows
            place[piece.first : piece.first + piece.rows] = np.arange(at, at + piece.rows)
        offset += grid.sessions * grid.rows
    head = [
        _padded(plan.tokens[span.first : span.end], span.rows, 0),
        _padded(plan.positions[span.first : span.end], span.rows, 0),
        _padded(slots, span.rows, spare * BLOCK_SIZE),
        place,
        _padded(fresh_blocks(plan, span.first, span.end), span.fresh, spare),
        wanted,
    ]
    shape = PassShape(span.rows, span.fresh, len(wanted), tuple(grid for grid, _ in grids), framed)
    return shape, np.concatenate([array.ravel() for array in itertools.chain(head, arrays)])


def _padded(array: Longs, size: int, filling: int) -> Longs:
    return np.concatenate([array, np.full(size - len(array), filling, np.int64)])


def _grid(shape: GridShape, members: Sequence[Piece], spare: int) -> tuple[Longs, Longs, Longs]:
    """Rows and positions [S, R] and tables [S, n]; missing rows are row 0 at position 0, so that they see a key."""
    rows, positions = np.zeros((2, shape.sessions, shape.rows), np.int64)
    tables = np.full((shape.sessions, shape.blocks), spare, np.int64)
    for index, piece in enumerate(members):
        rows[index, : piece.rows] = np.arange(piece.first, piece.first + piece.rows)
        positions[index, : piece.rows] = np.arange(piece.start, piece.end)
        tables[index, : len(piece.blocks)] = piece.blocks
    return rows, positions, tables
