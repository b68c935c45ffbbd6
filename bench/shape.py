"""What a line between two services does to bytes: when each piece that arrives at one end leaves at the other.

Arithmetic only: it has no clock and no sockets. Pieces keep their order, and none waits for another to arrive: a line
holds any number at once (only the bandwidth is shared).
"""

import random
from dataclasses import dataclass, field

_PACKET_BYTES = 1500
_SLICE_S = 0.0005


@dataclass(frozen=True, slots=True)
class Shape:
    """One way. ``delay_s`` for every piece (so a round trip takes twice that), up to ``jitter_s`` more, evenly drawn
    from ``seed``, and ``bytes_per_s`` at most (0: no limit). Raises ValueError for a negative number."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("delay_s", "jitter_s", "bytes_per_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be a number from 0 on, got {getattr(self, name)}")

    @property
    def slice_bytes(self) -> int | None:
        """Largest piece that is sent at once: half a millisecond of a limited line, so that a short message does not
        wait for a long one behind it. None without a limit."""
        return max(_PACKET_BYTES, int(self.bytes_per_s * _SLICE_S)) if self.bytes_per_s else None


@dataclass(slots=True)
class Line:
    """One direction of one connection; ``name`` tells its jitter from that of others. Times in seconds of one clock."""

    shape: Shape
    name: str
    _free_at: float = 0.0
    _last_due: float = 0.0
    _draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(f"{self.shape.seed}/{self.name}")

    def due(self, now: float, size: int) -> float:
        """When the last byte of ``size`` bytes that arrive now comes out; never before anything that came earlier."""
        sending = size / self.shape.bytes_per_s if self.shape.bytes_per_s else 0.0
        self._free_at = max(now, self._free_at) + sending
        travelling = self.shape.delay_s + self._draw.uniform(0.0, self.shape.jitter_s)
        self._last_due = max(self._last_due, self._free_at + travelling)
        return self._last_due
