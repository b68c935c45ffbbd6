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
