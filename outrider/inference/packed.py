"""One forward pass as plain arrays: rows of many sessions side by side, and where their caches are.

It knows neither torch nor sessions. T rows, S segments (one per session in the pass), W rows whose logits
are wanted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PADDING = -1
"""Block id of a row that belongs to no session."""

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of one session in a pass. ``wanted`` counts the last rows whose logits matter."""

    tokens: Sequence[int]
    start: int
    blocks: Sequence[int]
    wanted: int


@dataclass(frozen=True, slots=True)
class PackedPass:
    """tokens, positions [T]; segments [S, 3] (first row, rows, first position); tables [S, longest];
    blocks, offsets [T] (where each row's keys go); wanted [W] (row numbers)."""

    tokens: Longs
    positions: Longs
    segments: Ints
    tables: Ints
    blocks: Ints
    offsets: Ints
    wanted: Longs

    @property
    def rows(self) -> int:
        """Rows with padding."""
        return int(self.tokens.shape[0])


def padded_count(rows: int, multiple: int) -> int:
    """Rows after padding: the next multiple."""
    return -(-rows // multiple) * multiple


def _table_array(segments: Sequence[Segment]) -> Ints:
    tables = np.zeros((len(segments), max(len(s.blocks) for s in segments)), np.int32)
    for row, segment in enumerate(segments):
        tables[row, : len(segment.blocks)] = segment.blocks
    return tables


def pack(segments: Sequence[Segment], block_size: int, multiple: int) -> PackedPass:
    """Lay segments side by side and pad rows and wanted rows to a multiple."""
    counts = [len(s.tokens) for s in segments]
    ends = np.cumsum(counts)
    total = padded_count(int(ends[-1]), multiple)
    arrays: dict[str, Any] = {name: np.zeros(total, np.int64) for name in ("tokens", "positions")}
    blocks, offsets = np.full(total, PADDING, np.int32), np.zeros(total, np.int32)
    wanted: list[int] = []
    for segment, end, count in zip(segments, ends, counts, strict=True):
        rows = slice(int(end) - count, int(end))
        positions = np.arange(segment.start, segment.start + count)
        arrays["tokens"][rows] = segment.tokens
        arrays["positions"][rows] = positions
        blocks[rows] = np.asarray(segment.blocks, np.int32)[positions // block_size]
        offsets[rows] = positions % block_size
        wanted.extend(range(int(end) - segment.wanted, int(end)))
    wanted.extend([0] * (padded_count(len(wanted), multiple) - len(wanted)))
    borders = [(end - count, count, s.start) for s, end, count in zip(segments, ends, counts, strict=True)]
    return PackedPass(
        segments=np.asarray(borders, np.int32),
        tables=_table_array(segments),
        blocks=blocks,
        offsets=offsets,
        wanted=np.asarray(wanted, np.int64),
        **arrays,
    )
