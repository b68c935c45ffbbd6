"""Which orchestrator is asked next: in turn, those that failed lately last. It has the clock that it is given."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from outrider.errors import InvalidArgument

_FIRST_S = 1.0
_MOST_S = 30.0


@dataclass(slots=True)
class _Standing:
    """How long an address is asked last, after how many failures in a row."""

    not_before: float = -math.inf
    failures: int = 0


class Addresses:
    """Owner of what is known of each address."""

    def __init__(self, addresses: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Raises InvalidArgument for none, empty ones or the same one twice."""
        if not addresses or not all(addresses) or len(set(addresses)) < len(addresses):
            given = ", ".join(repr(address) for address in addresses) or "none"
            raise InvalidArgument("addresses", f"must be one or more different host:port, got {given}")
        self._clock = clock
        self._standing = {address: _Standing() for address in addresses}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[str]:
        return iter(self._standing)

    def __str__(self) -> str:
        return ", ".join(self._standing)

    def choose(self, tried: Collection[str], stay: str = "") -> str:
        """An address that is not among those tried, or any when all are. ``stay``: this one, unless it failed lately
        or was tried."""
        now, names = self._clock(), list(self._standing)
        fresh = [name for name in names if name not in tried] or names
        if stay in fresh and self._standing[stay].not_before <= now:
            return stay
        self._turn += 1
        in_turn = [name for name in names[self._turn - 1 :] + names[: self._turn - 1] if name in fresh]
        self._turn %= len(names)
        return min(in_turn, key=lambda name: max(now, self._standing[name].not_before))

    def failed(self, address: str) -> None:
        """It did not answer: others are asked first for a while."""
        standing = self._standing[address]
        standing.failures += 1
        standing.not_before = self._clock() + min(_MOST_S, _FIRST_S * 2.0 ** (min(standing.failures, 16) - 1))

    def worked(self, address: str) -> None:
        """It took a request."""
        self._standing[address] = _Standing()
