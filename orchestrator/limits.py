"""What a tenant may have, and the account of its tokens. It does not know who a tenant is or who asks."""

import time
from dataclasses import dataclass

_BURST_S = 10.0
_GRAIN_S = 1e-6
"""Debts below it are rounding (RetryInfo has whole nanoseconds): who comes back as late as he was told is out of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``max_answers``: running at once. ``tokens_per_s``: emitted tokens, sustained. ``burst_tokens``: what may be
    emitted at once beyond that; 0 is worth ten seconds. The others are no limit when they are 0."""

    max_answers: int = 0
    tokens_per_s: float = 0.0
    burst_tokens: float = 0.0

    @property
    def burst_s(self) -> float:
        """Seconds that it takes to earn the burst."""
        return self.burst_tokens / self.tokens_per_s if self.burst_tokens and self.tokens_per_s else _BURST_S


class TokenBucket:
    """Emitted tokens against a rate; full at first, and in debt when more was emitted than it held.

    Kept as the moment at which it will be full (the generic cell rate algorithm, ITU-T I.371), so nothing has to be
    refilled.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._full_at = time.monotonic()

    def spend(self, tokens: int) -> None:
        """Charge tokens that were emitted."""
        if self._limits.tokens_per_s:
            self._full_at = max(self._full_at, time.monotonic()) + tokens / self._limits.tokens_per_s

    @property
    def full(self) -> bool:
        """Whether it is as good as new."""
        return self._full_at <= time.monotonic()

    @property
    def debt_s(self) -> float:
        """Seconds until it is out of debt; 0 when it is."""
        debt_s = self._full_at - self._limits.burst_s - time.monotonic()
        return debt_s if debt_s > _GRAIN_S else 0.0
