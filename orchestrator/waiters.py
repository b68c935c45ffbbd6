"""Requests that wait to be let in: first come, first served within a tenant. It does not know who may come in."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from outrider.errors import OutriderError


def _future() -> "asyncio.Future[OutriderError | None]":
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False, slots=True)
class Waiter:
    """A request at the door; a smaller number came earlier. ``turn`` ends with None when it is let in, and with the
    error when it is refused; ``inside`` from the moment it is let in."""

    tenant: str
    number: int
    turn: "asyncio.Future[OutriderError | None]" = field(default_factory=_future)
    inside: bool = False

    def settle(self, error: OutriderError | None = None) -> None:
        """End its turn, unless that has ended: its task may have been cancelled in this very moment."""
        if not self.turn.done():
            self.turn.set_result(error)


class Waiters:
    """Who waits, by tenant. Tenants of whom nobody waits leave nothing behind."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, dict[int, Waiter]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, waiter: Waiter) -> None:
        """Put it behind the others of its tenant."""
        self._by_tenant.setdefault(waiter.tenant, {})[waiter.number] = waiter
        self._length += 1

    def remove(self, waiter: Waiter) -> None:
        """Take it out, if it is still in."""
        others = self._by_tenant.get(waiter.tenant, {})
        if others.pop(waiter.number, None) is not None:
            self._length -= 1
            if not others:
                del self._by_tenant[waiter.tenant]

    def of(self, tenant: str) -> list[Waiter]:
        """Those of a tenant, the first one first."""
        return list(self._by_tenant.get(tenant, {}).values())

    @property
    def heads(self) -> Iterator[Waiter]:
        """The first one of each tenant."""
        return (next(iter(waiters.values())) for waiters in self._by_tenant.values())

    @property
    def surplus(self) -> Waiter:
        """Who has to go when there are too many: the newest of the tenant with the most; among tenants that have
        equally many, the one that came last. So no tenant gets more places by coming first."""
        most = max(self._by_tenant.values(), key=lambda waiters: (len(waiters), next(reversed(waiters))))
        return next(reversed(most.values()))
