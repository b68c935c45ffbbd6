"""How a pass is cut into layouts: as it is and grouped, into frames of few shapes, or into tiles of one shape.

``GroupedLayouts`` serve speed, ``TiledLayouts`` serve bits that do not depend on the other rows. They know packed
passes and layouts, and nothing of kernels.
"""

from collections import defaultdict
from typing import Protocol

import numpy as np

from outrider.inference.accelerator.layout import (
    GridShape,
    Layout,
    Piece,
    Span,
    bucket,
    fresh_blocks,
    lay_out,
    pieces,
)
from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.packed import Longs, PackedPass

STEP_ROWS = 16
"""Rows of a session up to which it is a step (decode, verify) that shares a grid; more are a prompt by itself."""
FRAME_ROWS = 64
"""Rows of a pass up to which it gets a framed shape."""
TILE_ROWS = 64
"""Rows of a tile: every product over rows has this many, whatever is in them."""
TILE_SESSIONS, PIECE_ROWS = 8, 8
"""Sessions and rows of each that one product of a tile's attention takes."""
TILE_BLOCKS = 16
"""Blocks of keys that one product of a tile's attention takes."""
_FRAME_SLOTS = 256  # rows of a frame's grid, those included that fill it up
_FRAME_BLOCKS = 4
_WASTE = 4  # a frame gathers at most so many times the blocks that are needed


class Layouts(Protocol):
    """A way to cut passes."""

    def __call__(self, plan: PackedPass) -> list[Layout]:
        """Layouts to be computed in this order; together they answer every wanted row once."""


class GroupedLayouts:
    """One layout a pass: a frame where ``framed`` and where one fits, else a grid per group of like sessions."""

    def __init__(self, spare: int, framed: bool) -> None:
        self._spare = spare
        self._framed = framed

    def __call__(self, plan: PackedPass) -> list[Layout]:
        """One layout."""
        members = pieces(plan)
        frame = frame_of(plan, members) if self._framed else None
        return [self._frame(plan, members, frame) if frame else self._groups(plan, members)]

    def _frame(self, plan: PackedPass, members: list[Piece], grid: GridShape) -> Layout:
        rows = bucket(plan.rows)
        span = Span(0, plan.rows, rows, grid.sessions)
        shape, flat = lay_out(plan, span, [(grid, members)], np.arange(rows), self._spare, True)
        return Layout(shape, flat, plan.wanted, np.arange(len(plan.wanted)))

    def _groups(self, plan: PackedPass, members: list[Piece]) -> Layout:
        groups: dict[GridShape, list[Piece]] = defaultdict(list)
        grids: list[tuple[GridShape, list[Piece]]] = []
        for piece in members:
            if piece.rows > STEP_ROWS:
                grids.append((GridShape(1, piece.rows, len(piece.blocks), piece.end), [piece]))
            else:
                groups[GridShape(1, bucket(piece.rows), bucket(len(piece.blocks)))].append(piece)
        grids += [(GridShape(len(group), key.rows, key.blocks), group) for key, group in groups.items()]
        span = Span(0, plan.rows, plan.rows, len(fresh_blocks(plan, 0, plan.rows)))
        shape, flat = lay_out(plan, span, grids, plan.wanted, self._spare, False)
        everyone = np.arange(len(plan.wanted))
        return Layout(shape, flat, everyone, everyone)


def frame_of(plan: PackedPass, members: list[Piece]) -> GridShape | None:
    """The grid that a small pass of steps fits in; None when it is large, or would be mostly filling."""
    sessions, rows = bucket(len(members)), bucket(max(piece.rows for piece in members))
    blocks = bucket(max(len(piece.blocks) for piece in members), _FRAME_BLOCKS)
    needed = sum(max(_FRAME_BLOCKS, len(piece.blocks)) for piece in members)
    fits = plan.rows <= FRAME_ROWS and rows <= STEP_ROWS and sessions * rows <= _FRAME_SLOTS
    return GridShape(sessions, rows, blocks) if fits and sessions * blocks <= _WASTE * needed else None


class TiledLayouts:
    """Layouts of exactly TILE_ROWS rows; in their grids sessions and blocks come in whole tiles."""

    def __init__(self, spare: int) -> None:
        self._spare = spare

    def __call__(self, plan: PackedPass) -> list[Layout]:
        """As many layouts as tiles; keys of earlier ones are written before later ones read them."""
        members = pieces(plan)
        return [self._tile(plan, members, first) for first in range(0, plan.rows, TILE_ROWS)]

    def _tile(self, plan: PackedPass, members: list[Piece], first: int) -> Layout:
        end = min(first + TILE_ROWS, plan.rows)
        parts = [part for piece in members for part in _parts(piece, first, end)]
        blocks = max((len(part.blocks) for part in parts), default=1)
        sessions = TILE_SESSIONS * bucket(max(1, -(-len(parts) // TILE_SESSIONS)))
        grid = GridShape(sessions, PIECE_ROWS, bucket(blocks, TILE_BLOCKS))
        answers = np.flatnonzero((plan.wanted >= first) & (plan.wanted < end))
        wanted: Longs = np.arange(TILE_ROWS) if len(answers) else np.zeros(1, np.int64)
        span = Span(first, end, TILE_ROWS, TILE_ROWS)
        shape, flat = lay_out(plan, span, [(grid, parts)], wanted, self._spare, True)
        return Layout(shape, flat, plan.wanted[answers] - first, answers)


def _parts(piece: Piece, first: int, end: int) -> list[Piece]:
    """What of a piece lies in rows ``first`` to ``end``, in parts of at most PIECE_ROWS; rows count from ``first``."""
    low, high = max(piece.first, first), min(piece.first + piece.rows, end)
    found = []
    for row in range(low, high, PIECE_ROWS):
        rows = min(PIECE_ROWS, high - row)
        start = piece.start + row - piece.first
        found.append(Piece(row - first, rows, start, piece.blocks[: -(-(start + rows) // BLOCK_SIZE)]))
    return found
