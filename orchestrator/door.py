"""Admission: who is inside, who waits, who is refused. It knows tenants by name and limits, not calls or answers.

A free place goes to the waiting tenant that has the fewest inside, so one request of a tenant is not held up by a
hundred of another; within a tenant, and among equals, to whoever waits longest. When too many wait, the tenant with
the most waiting loses its newest (longest queue drop: Suter et al., INFOCOM 1998). After every change everybody who
can be let in has been, so nobody waits beside a place that he could have.

A tenant that has emitted more tokens than its rate allows is refused until it is out of debt; what it has inside goes
on. All of it belongs to one event loop.
"""

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from orchestrator import refusals
from orchestrator.limits import Limits, TokenBucket
from orchestrator.waiters import Waiter, Waiters
from outrider.errors import OutriderError


@dataclass(slots=True)
class _Party:
    """A tenant that has something here."""

    limits: Limits
    bucket: TokenBucket
    inside: int = 0

    @property
    def full(self) -> bool:
        return 0 < self.limits.max_answers <= self.inside


class Door:
    """Owner of who is inside. ``most_answers`` inside and ``most_waiting`` outside in all; nobody waits longer than
    ``patience_s``."""

    def __init__(
        self,
        limits_of: Callable[[str], Limits],
        most_answers: int,
        most_waiting: int,
        patience_s: float,
        refused: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """``refused`` hears why somebody was, in one word."""
        self._refused = refused
        self._limits_of = limits_of
        self._most_answers = most_answers
        self._most_waiting = most_waiting
        self._patience_s = patience_s
        self._parties: dict[str, _Party] = {}
        self._waiters = Waiters()
        self._numbers = itertools.count()
        self._inside = 0

    @property
    def inside(self) -> int:
        """Answers that are let in."""
        return self._inside

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiters)

    @property
    def tenants(self) -> int:
        """Tenants that are remembered: they have somebody inside or waiting, or tokens to earn back."""
        return len(self._parties)

    @contextlib.asynccontextmanager
    async def admitted(self, tenant: str, time_left_s: float | None) -> AsyncIterator[None]:
        """Inside it the caller has a place. ``time_left_s``: until the request's deadline; None for none.

        Raises ResourceExhausted when the tenant is in debt, when too many wait, or after the longest wait, and
        DeadlineExceeded when the request's time is over sooner.
        """
        waiter = self._arrive(tenant)
        try:
            await self._turn(waiter, time_left_s)
            yield
        finally:
            self._go(waiter)

    def spent(self, tenant: str, tokens: int) -> None:
        """Charge emitted tokens. Whoever waits of a tenant that comes into debt is refused."""
        bucket = self._party(tenant).bucket
        bucket.spend(tokens)
        if bucket.debt_s:
            for waiter in self._waiters.of(tenant):
                self._refuse(waiter, self._in_debt(tenant), "tenant_rate")
        self._forget(tenant)

    def forget(self) -> None:
        """Drop tenants that have earned back what they spent. To be called now and then."""
        for tenant in list(self._parties):
            self._forget(tenant)

    def _arrive(self, tenant: str) -> Waiter:
        if self._party(tenant).bucket.debt_s:
            self._refused("tenant_rate")
            raise self._in_debt(tenant)
        waiter = Waiter(tenant, next(self._numbers))
        self._waiters.add(waiter)
        self._fill()
        if len(self._waiters) > self._most_waiting:
            surplus = self._waiters.surplus
            self._refuse(surplus, refusals.crowded(surplus.tenant, self._most_waiting, self._patience_s), "crowded")
        return waiter

    async def _turn(self, waiter: Waiter, time_left_s: float | None) -> None:
        """Until it is let in. Whatever settles it first counts, so a place and the end of patience cannot cross."""
        left_s = math.inf if time_left_s is None else max(0.0, time_left_s)
        wait_s = min(left_s, self._patience_s)
        timer = asyncio.get_running_loop().call_later(wait_s, self._give_up, waiter, left_s < self._patience_s)
        try:
            error = await waiter.turn
        finally:
            timer.cancel()
        if error is not None:
            raise error

    def _go(self, waiter: Waiter) -> None:
        """It leaves, from inside or from among those who wait."""
        self._waiters.remove(waiter)
        if waiter.inside:
            self._inside -= 1
            self._parties[waiter.tenant].inside -= 1
        self._forget(waiter.tenant)
        self._fill()

    def _fill(self) -> None:
        while self._inside < self._most_answers and (waiter := self._next()) is not None:
            self._waiters.remove(waiter)
            self._inside += 1
            self._parties[waiter.tenant].inside += 1
            waiter.inside = True
            waiter.settle()

    def _next(self) -> Waiter | None:
        fit = [head for head in self._waiters.heads if not self._parties[head.tenant].full]
        return min(fit, key=lambda head: (self._parties[head.tenant].inside, head.number), default=None)

    def _give_up(self, waiter: Waiter, out_of_time: bool) -> None:
        if waiter.turn.done():
            return
        tenant, party = waiter.tenant, self._parties[waiter.tenant]
        what = refusals.tenant_full(tenant, party.limits) if party.full else refusals.all_full(self._most_answers)
        if out_of_time:
            self._refuse(waiter, refusals.out_of_time(tenant, what), "deadline")
        else:
            self._refuse(waiter, refusals.out_of_patience(tenant, what, self._patience_s), "waited")

    def _refuse(self, waiter: Waiter, error: OutriderError, reason: str) -> None:
        self._refused(reason)
        self._waiters.remove(waiter)
        waiter.settle(error)

    def _in_debt(self, tenant: str) -> OutriderError:
        party = self._parties[tenant]
        return refusals.in_debt(tenant, party.limits, party.bucket.debt_s)

    def _party(self, tenant: str) -> _Party:
        party = self._parties.get(tenant)
        if party is None:
            limits = self._limits_of(tenant)
            party = self._parties[tenant] = _Party(limits, TokenBucket(limits))
        return party

    def _forget(self, tenant: str) -> None:
        party = self._parties.get(tenant)
        if party is not None and not party.inside and party.bucket.full and not self._waiters.of(tenant):
            del self._parties[tenant]
