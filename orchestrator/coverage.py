"""How often the target's token is among the draft's next choices where the draft's first was rejected: learned as a
multiple of a fixed curve, so that every number of candidates teaches of all others."""

from orchestrator.decay import Counts
from outrider.outcomes import USUAL_COVERAGE

_STRENGTH = 4.0
_MOST = 0.98


class Coverage:
    """Owner of the learned multiple."""

    def __init__(self, half_life: float) -> None:
        self._counts = Counts(half_life)

    def note(self, candidates: int, hit: bool, now: float) -> None:
        """The target's token was, or was not, among so many candidates."""
        if candidates:
            self._counts.add([float(hit)], [USUAL_COVERAGE[candidates]], now)

    def curve(self, now: float) -> list[float]:
        """Chances for 0, 1, ... candidates."""
        scale = self._counts.share(0, 1.0, _STRENGTH, now)
        return [min(_MOST, scale * value) for value in USUAL_COVERAGE]
