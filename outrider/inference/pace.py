"""How many rows of a prompt may ride beside running sessions: measured, so that their tokens keep their pace.

It remembers how long passes of each size took, in powers of two, and trusts medians only: one pass that a noisy
machine delayed changes nothing. It has no clock of its own and does not know whose rows they are.

A pass with a prompt's rows may take ``STRETCH`` times as long as one without, or ``UNNOTICED_S`` where that is more:
small chunks are dear, because each pass repeats the rows of the running sessions, and a reader does not notice a token
that comes so late. A running session that has waited for such a pass is in one without a chunk next (``passes.py``),
so a gap is at most one of them and a quiet one.
"""

import statistics
from collections import deque
from collections.abc import Sequence

STRETCH = 4.0
UNNOTICED_S = 0.08
LEAST_ROWS = 16
_REMEMBERED = 15


def _line(one: tuple[float, float], other: tuple[float, float], rows: int) -> float:
    """Seconds of ``rows`` on the line through two (rows, seconds); more rows never take less time than ``one``."""
    slope = max(0.0, (other[1] - one[1]) / (other[0] - one[0]))
    return one[1] + slope * (rows - one[0])


def _now(times: Sequence[float]) -> float:
    """The median, or that of the last three passes where it is more: contexts grow while a prompt comes."""
    return max(statistics.median(times), statistics.median(times[-3:]))


class Pace:
    """Owner of the measured times of one engine's passes."""

    def __init__(self) -> None:
        self._passes: dict[int, deque[tuple[int, float]]] = {}

    def note(self, rows: int, seconds: float) -> None:
        """A pass of so many rows took so long."""
        self._passes.setdefault(rows.bit_length(), deque(maxlen=_REMEMBERED)).append((rows, seconds))

    def _known(self) -> dict[int, tuple[float, float]]:
        """Median rows and usual seconds of each size, the smallest first."""
        columns = {size: tuple(zip(*passes)) for size, passes in sorted(self._passes.items())}
        return {size: (statistics.median(rows), _now(times)) for size, (rows, times) in columns.items()}

    def estimate(self, rows: int) -> float | None:
        """Seconds of a pass, on the line through the nearest measured sizes; None when nothing was measured."""
        known = list(self._known().values())
        if not known:
            return None
        above = next((point for point in known if point[0] >= rows), None)
        below = [point for point in known if point[0] < rows]
        if not below:
            return known[0][1]
        before = below[-2] if len(below) > 1 else (0.0, 0.0)
        return _line(*(below[-1], above) if above else (before, below[-1]), rows)

    def chunk(self, short_rows: int, most: int) -> int:
        """Prompt rows that may join ``short_rows`` rows of running sessions: the largest power of two from
        LEAST_ROWS up to ``most`` whose pass is estimated within STRETCH times the pass without them, or UNNOTICED_S."""
        quiet = self.estimate(max(1, short_rows))
        rows = LEAST_ROWS
        while quiet is not None and rows * 2 <= most:
            estimated = self.estimate(short_rows + rows * 2)
            if estimated is None or estimated > max(STRETCH * quiet, UNNOTICED_S):
                break
            rows *= 2
        return min(rows, most)
