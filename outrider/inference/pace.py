"""How many rows of a prompt may ride beside running sessions: measured, so that their tokens keep their pace.

It remembers how long passes of each size took, in powers of two, and trusts medians only: one pass that a noisy
machine delayed changes nothing. It has no clock of its own and does not know whose rows they are.

A pass with a prompt's rows may take ``STRETCH`` times as long as one without. A running session waits for one such
pass at most before its own, so a gap is at most two of them; a chunk that costs more than this would show.
"""

import statistics
from collections import deque

STRETCH = 3.0
LEAST_ROWS = 16
_REMEMBERED = 15


class Pace:
    """Owner of the measured times of one engine's passes."""

    def __init__(self) -> None:
        self._seconds: dict[int, deque[float]] = {}

    def note(self, rows: int, seconds: float) -> None:
        """A pass of so many rows took so long."""
        self._seconds.setdefault(rows.bit_length(), deque(maxlen=_REMEMBERED)).append(seconds)

    def estimate(self, rows: int) -> float | None:
        """Seconds of a pass: the median of its size, or the nearest smaller size's in proportion, or the nearest
        larger one's; None when nothing was measured."""
        size = rows.bit_length()
        known = {other: statistics.median(times) for other, times in self._seconds.items()}
        smaller = [other for other in known if other <= size]
        if smaller:
            nearest = max(smaller)
            return float(known[nearest] * 2 ** (size - nearest))
        return float(known[min(known)]) if known else None

    def chunk(self, short_rows: int, most: int) -> int:
        """Prompt rows that may join ``short_rows`` rows of running sessions: the largest power of two from
        LEAST_ROWS up to ``most`` whose pass is estimated within STRETCH times the pass without them."""
        quiet = self.estimate(max(1, short_rows))
        rows = LEAST_ROWS
        while quiet is not None and rows * 2 <= most:
            estimated = self.estimate(short_rows + rows * 2)
            if estimated is None or estimated > STRETCH * quiet:
                break
            rows *= 2
        return min(rows, most)
