"""What look-ahead is worth beside what is expected of it: how often it has the outcome prepared, how long that takes,
and what asking again costs where it has not. All are learned as multiples of the expectation.

What never comes, what the draft ranks worse than usual, and a draft that is still busy with what nobody needs are all
in them.
"""

from orchestrator.decay import Counts, Level
from orchestrator.rounds import load_of

_HALF_LIFE, _LONG = 1024.0, 4096.0
_STRENGTH = 4.0


class Hits:
    """Owner of the learned multiples, per load; hits also per length, drawn to those of all lengths."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], Counts] = {}
        self._again: dict[int, Level] = {}
        self._preparing: dict[tuple[int, int], Level] = {}

    def note(self, k: int, sessions: int, expected: float, hit: bool, now: float) -> None:
        """A verdict on a block of ``k``, whose outcome was ``expected`` among those prepared with such a chance."""
        for length, half_life in ((0, _LONG), (k, _HALF_LIFE)):
            counts = self._counts.setdefault((length, load_of(sessions)), Counts(half_life))
            counts.add([float(hit)], [expected], now)

    def multiple(self, k: int, sessions: int, now: float) -> float:
        """Hits over expected hits; 1 before anything was seen."""
        result = 1.0
        for length in (0, k):
            if (counts := self._counts.get((length, load_of(sessions)))) is not None:
                result = counts.share(0, result, _STRENGTH, now)
        return result

    def note_again(self, sessions: int, multiple: float, now: float) -> None:
        """A block that was asked for after a miss, in so many times the usual time of such a block."""
        self._again.setdefault(load_of(sessions), Level(_LONG)).note(multiple, now, 1 / sessions)

    def note_preparing(self, sessions: int, outcomes: int, multiple: float, now: float) -> None:
        """A look-ahead for so many outcomes whose answer took so many times the expected time."""
        for count in (0, outcomes):
            level = self._preparing.setdefault((load_of(sessions), count), Level(_HALF_LIFE / 4))
            level.note(multiple, now, 1 / sessions)

    def preparing(self, sessions: int, outcomes: int, now: float) -> float:
        """Times the expected time that a look-ahead for so many outcomes takes; what was not tried is taken to be like
        the rest."""
        result = 1.0
        for count in (0, outcomes):
            if (level := self._preparing.get((load_of(sessions), count))) is not None:
                result = level.blend(result, 1.0, now)
        return result

    def again(self, sessions: int, now: float) -> float:
        """Times the usual time that a block takes after a miss."""
        level = self._again.get(load_of(sessions))
        return level.blend(1.0, 1.0, now) if level else 1.0
