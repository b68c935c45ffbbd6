"""All replicas of one role: who is in, and which of them a session goes to.

A session stays where it is while that is well. Otherwise rendezvous hashing of its key puts sessions with equal
beginnings on one replica, where they share cached prefixes, as long as none has much more than its share (rendezvous:
Thaler and Ravishankar 1998; bounded loads: Mirrokni et al., arXiv 1608.01350). It does not know rounds or streams.
"""

import asyncio
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from orchestrator.member import Member, State
from orchestrator.meters import Meters
from outrider.wire import Numerics, ReplicaFacts

_BOUND = 1.25
"""Most that a member may have of an equal share of the sessions before others are taken."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a session needs of a replica: the fingerprint of its weights, where it matters; room for so many tokens;
    and, if there is a choice, numerics ``like`` those it began with, which choose the same tokens to the bit."""

    weights: str | None = None
    room: int = 0
    like: Numerics | None = None

    def met_by(self, facts: ReplicaFacts | None) -> bool:
        """Whether a replica will do."""
        if facts is None:
            return self.weights is None and self.room == 0
        return self.weights in (None, facts.weights) and facts.room >= self.room


def _weight(key: str, address: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{address}".encode(), digest_size=8).digest()


class Pool:
    """Owner of the members of a role."""

    def __init__(self, make: Callable[[str], Member], meters: Meters | None = None) -> None:
        """``make`` gives a member for an address; ``meters`` count what happens on the way to members."""
        self.meters = meters or Meters()
        self._make = make
        self._members: dict[str, Member] = {}
        self._ready = asyncio.Event()

    @property
    def members(self) -> tuple[Member, ...]:
        """All of them, by address."""
        return tuple(self._members.values())

    @property
    def ready(self) -> bool:
        """Whether any of them can be used."""
        return self._ready.is_set()

    @property
    def facts(self) -> ReplicaFacts | None:
        """What the one with the most room said of itself, of those in use if there are any; never one that does not
        fit. What it would take at once and another one would not, is left out."""
        ready = [m.facts for m in self.members if m.facts is not None and m.state is State.READY]
        known = [m.facts for m in self.members if m.facts is not None and m.state is not State.REFUSED]
        alike = ready or known
        if not alike:
            return None
        return replace(
            max(alike, key=lambda facts: facts.room),
            max_draft_tokens=min(facts.max_draft_tokens for facts in alike),
            max_run=min(facts.max_run for facts in alike),
        )

    @property
    def reason(self) -> str:
        """Why none can be used, in words."""
        away = (f"{m.address} is away: {m.reason}" for m in self.members if m.state is not State.READY)
        return "; ".join(away) or "there is none"

    def add(self, member: Member) -> None:
        """Take a member in; its owner has opened it."""
        member.changed = self._changed
        self._members[member.address] = member
        self._members = dict(sorted(self._members.items()))
        self._changed()

    async def set(self, addresses: Iterable[str]) -> None:
        """Make these the members: new ones are opened, and others leave. One that is in use stays as long: a registry
        that forgets a replica, or everything, ends no session."""
        wanted = dict.fromkeys(addresses)
        for address, member in self._members.items():
            member.name(address in wanted)
        for address in [address for address in wanted if address not in self._members]:
            member = self._make(address)
            member.open()
            self.add(member)
        await self._remove([member for member in self.members if member.gone])

    async def _remove(self, members: Sequence[Member]) -> None:
        for member in members:
            del self._members[member.address]
        self._changed()
        await asyncio.gather(*(member.close() for member in members))

    async def close(self) -> None:
        """Close all members."""
        await self._remove(self.members)

    def _changed(self) -> None:
        if self.has():
            self._ready.set()
        else:
            self._ready.clear()

    def has(self, avoid: Collection[str] = ()) -> bool:
        """Whether one is in use whose address is none of these."""
        return any(m.state is State.READY and m.address not in avoid for m in self._members.values())

    def choose(
        self,
        key: str,
        stay: str = "",
        avoid: Collection[str] = (),
        needs: Needs = Needs(),
    ) -> Member | None:
        """A member in use for a session, or None. ``stay``: the address where it was; ``avoid``: where it was
        refused."""
        fit = [m for m in self.members if m.state is State.READY and m.address not in avoid]
        fit = [m for m in fit if needs.met_by(m.facts)]
        fit = [m for m in fit if not m.leaving] or fit
        like = needs.like
        fit = [m for m in fit if like is None or (m.facts is not None and m.facts.numerics == like)] or fit
        if not fit:
            return None
        return next((member for member in fit if member.address == stay), None) or self._share(key, fit)

    @staticmethod
    def _share(key: str, fit: Sequence[Member]) -> Member:
        """The first by weight that has not much more than its share."""
        most = math.ceil(_BOUND * (sum(member.load for member in fit) + 1) / len(fit))
        return min((m for m in fit if m.load < most), key=lambda member: _weight(key, member.address))

    async def wait(self) -> None:
        """Return when one can be used."""
        await self._ready.wait()

    def at(self, address: str) -> Member | None:
        """The member at an address."""
        return self._members.get(address)
