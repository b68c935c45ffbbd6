"""How often look-ahead has the outcome ready, over how often its outcomes were expected to hold it: what comes too late
and what the draft ranks worse than usual, learned per length and load."""

from orchestrator.decay import Counts
from orchestrator.rounds import load_of

_HALF_LIFE = 1024.0
_STRENGTH = 4.0


class Hits:
    """Owner of the learned multiples."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], Counts] = {}

    def note(self, k: int, sessions: int, expected: float, hit: bool, now: float) -> None:
        """A verdict on a block of ``k``, whose outcome was ``expected`` among those prepared with such a chance."""
        counts = self._counts.setdefault((k, load_of(sessions)), Counts(_HALF_LIFE))
        counts.add([float(hit)], [expected], now)

    def multiple(self, k: int, sessions: int, now: float) -> float:
        """Hits over expected hits; 1 before anything was seen."""
        counts = self._counts.get((k, load_of(sessions)))
        return counts.share(0, 1.0, _STRENGTH, now) if counts else 1.0
