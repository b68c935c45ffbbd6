"""How long a pass of so many rows takes, as a setting: a few points and the straight lines between them.

It knows numbers and their notation, not who waits for them.
"""

from dataclasses import dataclass
from itertools import pairwise

MOST_MS = 60_000.0
_NOTATION = "milliseconds such as 20, or by rows such as 1:20,64:40 (rows rise, times never fall, at most 60000)"

Point = tuple[int, float]


def _point(text: str) -> Point:
    rows, colon, milliseconds = text.partition(":")
    return (int(rows), float(milliseconds)) if colon else (1, float(rows))


def _sensible(points: tuple[Point, ...]) -> bool:
    rows, times = [point[0] for point in points], [point[1] for point in points]
    rising = all(before < after for before, after in pairwise(rows))
    never_falling = all(before <= after for before, after in pairwise(times))
    return rising and never_falling and rows[0] >= 1 and all(0 <= time <= MOST_MS for time in times)


@dataclass(frozen=True, slots=True)
class PassTimes:
    """``points`` are (rows, milliseconds), rows rising. A pass with fewer rows than the first point takes as long as
    it; beyond the last one the last line goes on."""

    points: tuple[Point, ...] = ((1, 0.0),)

    @classmethod
    def parse(cls, text: str) -> "PassTimes":
        """Read "20" or "1:20,16:22,64:40". Raises ValueError that says what is allowed."""
        try:
            points = tuple(_point(part) for part in text.split(","))
        except ValueError:
            raise ValueError(_NOTATION) from None
        if not _sensible(points):
            raise ValueError(_NOTATION)
        return cls(points)

    def __str__(self) -> str:
        """What ``parse`` reads."""
        if len(self.points) == 1 and self.points[0][0] == 1:
            return repr(self.points[0][1])
        return ",".join(f"{rows}:{milliseconds!r}" for rows, milliseconds in self.points)

    def seconds(self, rows: int) -> float:
        """Seconds of a pass of ``rows`` rows."""
        first, last = self.points[0], self.points[-1]
        if rows <= first[0] or first == last:
            return first[1] / 1000
        before, after = next((pair for pair in pairwise(self.points) if rows <= pair[1][0]), (self.points[-2], last))
        slope = (after[1] - before[1]) / (after[0] - before[0])
        return (before[1] + slope * (rows - before[0])) / 1000
