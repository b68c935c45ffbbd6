"""When a replica is asked next: soon while it answers, later with each failure in a row. It does not ask."""

import time
from dataclasses import dataclass

_CHECK_S = 1.0
"""Between two questions to a replica in use."""
_REFUSED_S = 10.0
"""Between two questions to one that does not fit."""
_FIRST_S = 0.25
_MOST_S = 10.0


@dataclass(slots=True)
class Patience:
    """Owner of the back-off. Each failure in a row doubles it, up to ``most_s``."""

    most_s: float = _MOST_S
    backoff_s: float = 0.0
    asks_at: float = 0.0

    @property
    def due(self) -> bool:
        """Whether it should be asked now."""
        return time.monotonic() >= self.asks_at

    def failed(self) -> None:
        """It is left alone, twice as long as the last time."""
        self.backoff_s = min(self.most_s, self.backoff_s * 2 or _FIRST_S)
        self.asks_at = time.monotonic() + self.backoff_s

    def succeeded(self) -> None:
        """Earlier failures are forgotten."""
        self.backoff_s = 0.0

    def answered(self, fits: bool) -> None:
        """It said what it is. That alone forgets nothing: a round must have been answered too."""
        self.asks_at = time.monotonic() + (_CHECK_S if fits else _REFUSED_S)
