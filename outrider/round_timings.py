"""Where a replica spent a round. A value; it knows no clock."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoundTimings:
    """Microseconds queued and in passes at a replica; the passes and the rows of the last one; the claimed
    tokens that a prefix shared with another session spared the round."""

    queue_us: int = 0
    forward_us: int = 0
    passes: int = 0
    batch_rows: int = 0
    shared_tokens: int = 0

    def network_us(self, took_s: float) -> int:
        """Microseconds of an exchange that the replica does not account for: both ways, and what the callers needed. At
        least 10, as in the estimates of round trips."""
        return max(int(took_s * 1e6) - self.queue_us - self.forward_us, 10)
