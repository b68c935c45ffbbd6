"""How often the target's token is among the draft's next choices where it rejected one, learned from look-aheads.

A curve of one parameter: 1 - (1 + candidates) ** -shape. Which shapes are likely is learned from what was prepared and
came true or not; old evidence fades. It does not know sessions, times or loads: this is a matter of the two models.
"""

import math
from operator import mul

from outrider.outcomes import MOST_EACH, USUAL_SHAPE, coverage

_SHAPES = (0.2, 0.3, 0.5, USUAL_SHAPE, 1.0, 1.4, 2.0, 3.0)
_CURVES = tuple(coverage(shape) for shape in _SHAPES)
_DOUBT = 1.0
"""How much less likely a shape twice or half the usual one is taken to be at first, as a logarithm."""
_HALF_LIFE = 2048.0
_LEAST = 0.01


class Coverage:
    """Owner of how likely each shape is."""

    def __init__(self) -> None:
        self._first = [-_DOUBT * math.log2(shape / USUAL_SHAPE) ** 2 for shape in _SHAPES]
        self._seen = [0.0] * len(_SHAPES)
        self._at = 0.0
        self._curve: tuple[float, ...] | None = None

    def note(self, candidates: int, right: bool, now: float) -> None:
        """A draft token was rejected where so many other choices of the draft had been prepared for."""
        if candidates == 0:
            return
        fade, self._at = 0.5 ** ((now - self._at) / _HALF_LIFE), now
        chances = (curve[min(candidates, MOST_EACH)] for curve in _CURVES)
        likely = (math.log(max(_LEAST, chance if right else 1 - chance)) for chance in chances)
        self._seen = [fade * before + new for before, new in zip(self._seen, likely, strict=True)]
        self._curve = None

    def curve(self) -> tuple[float, ...]:
        """Chances for 0 to ``MOST_EACH`` candidates, averaged over the shapes."""
        if self._curve is None:
            logs = [first + seen for first, seen in zip(self._first, self._seen, strict=True)]
            weights = [math.exp(each - max(logs)) for each in logs]
            whole = sum(weights)
            places = zip(*_CURVES, strict=True)
            self._curve = tuple(sum(map(mul, weights, place)) / whole for place in places)
        return self._curve
