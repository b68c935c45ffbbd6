"""All replicas of one role: who is in, and which of them a session goes to.

A session stays where it is while that is well. Otherwise rendezvous hashing of its key puts sessions with equal
beginnings on one replica, where they share cached prefixes, as long as none has much more than its share (rendezvous:
Thaler and Ravishankar 1998; bounded loads: Mirrokni et al., arXiv 1608.01350). It does not know rounds or streams.
"""

import asyncio
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence

from orchestrator.member import Member, State
from outrider.wire import Numerics, ReplicaFacts

_BOUND = 1.25
"""Most that a member may have of an equal share of the sessions before others are taken."""


def _weight(key: str, address: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{address}".encode(), digest_size=8).digest()


class Pool:
    """Owner of the members of a role."""

    def __init__(self, make: Callable[[str], Member]) -> None:
        """``make`` gives a member for an address."""
        self._make = make
        self._members: dict[str, Member] = {}
        self._ready = asyncio.Event()

    @property
    def members(self) -> tuple[Member, ...]:
        """All of them, by address."""
        return tuple(self._members[address] for address in sorted(self._members))

    @property
    def ready(self) -> bool:
        """Whether any of them can be used."""
        return self._ready.is_set()

    @property
    def facts(self) -> ReplicaFacts | None:
        """What one of them said of itself, one in use if there is any; never of one that does not fit."""
        known = [m for m in self.members if m.facts is not None and m.state is not State.REFUSED]
        known.sort(key=lambda m: m.state is not State.READY)
        return known[0].facts if known else None

    @property
    def reason(self) -> str:
        """Why none can be used, in words."""
        return "; ".join(f"{m.address} is away: {m.reason}" for m in self.members) or "there is none"

    def add(self, member: Member) -> None:
        """Take a member in; its owner has opened it."""
        member.changed = self._changed
        self._members[member.address] = member
        self._changed()

    async def set(self, addresses: Iterable[str]) -> None:
        """Make these the members: new ones are opened, and others leave. One that is in use stays as long: a registry
        that forgets a replica, or everything, ends no session."""
        wanted = dict.fromkeys(addresses)
        for address, member in self._members.items():
            member.leaving = address not in wanted
        for address in [address for address in wanted if address not in self._members]:
            member = self._make(address)
            member.open()
            self.add(member)
        gone = [m for m in self._members.values() if m.leaving and m.state is not State.READY and not m.streams]
        await self._remove(gone)

    async def _remove(self, members: Sequence[Member]) -> None:
        for member in members:
            del self._members[member.address]
        self._changed()
        await asyncio.gather(*(member.close() for member in members))

    async def close(self) -> None:
        """Close all members."""
        await self._remove(list(self._members.values()))

    def _changed(self) -> None:
        if any(member.state is State.READY for member in self._members.values()):
            self._ready.set()
        else:
            self._ready.clear()

    def choose(
        self, key: str, stay: str = "", avoid: Collection[str] = (), like: Numerics | None = None
    ) -> Member | None:
        """A member in use for a session, or None. ``stay``: the address where it was, ``avoid``: where it was refused.
        Those whose numerics are ``like`` come first: they choose the same tokens to the bit."""
        fit = [m for m in self.members if m.state is State.READY and m.address not in avoid]
        fit = [m for m in fit if not m.leaving] or fit
        same = [m for m in fit if like is None or (m.facts is not None and m.facts.numerics == like)]
        fit = same or fit
        if not fit:
            return None
        for member in fit:
            if member.address == stay:
                return member
        most = math.ceil(_BOUND * (sum(member.load for member in fit) + 1) / len(fit))
        fit.sort(key=lambda member: _weight(key, member.address))
        return next((member for member in fit if member.load < most), fit[0])

    async def wait(self) -> None:
        """Return when one can be used."""
        await self._ready.wait()

    def at(self, address: str) -> Member | None:
        """The member at an address."""
        return self._members.get(address)
