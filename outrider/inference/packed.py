"""One forward pass as plain arrays: rows of many sessions side by side, and where their caches are.

It knows neither torch nor sessions. T rows, S segments (one per session in the pass), W rows whose logits
are wanted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


def pack(segments: Sequence[Segment], block_size: int, multiple: int) -> PackedPass:
    """Lay segments side by side and pad rows and wanted rows to a multiple."""
    tokens: list[int] = []
    positions: list[int] = []
    blocks: list[int] = []
    wanted: list[int] = []
    borders: list[tuple[int, int, int]] = []
    for segment in segments:
        span = range(segment.start, segment.start + len(segment.tokens))
        borders.append((len(tokens), len(span), segment.start))
        tokens.extend(segment.tokens)
        positions.extend(span)
        blocks.extend(segment.blocks[position // block_size] for position in span)
        wanted.extend(range(len(tokens) - segment.wanted, len(tokens)))
    padding = padded_count(len(tokens), multiple) - len(tokens)
    places = np.array([*positions, *[0] * padding], np.int64)
    return PackedPass(
        tokens=np.array([*tokens, *[0] * padding], np.int64),
        positions=places,
        segments=np.array(borders, np.int32),
        tables=_table_array(segments),
        blocks=np.array([*blocks, *[PADDING] * padding], np.int32),
        offsets=(places % block_size).astype(np.int32),
        wanted=np.array([*wanted, *[0] * (padded_count(len(wanted), multiple) - len(wanted))], np.int64),
    )


def _table_array(segments: Sequence[Segment]) -> Ints:
    longest = max(len(segment.blocks) for segment in segments)
    return np.array([[*s.blocks, *[0] * (longest - len(s.blocks))] for s in segments], np.int32)
