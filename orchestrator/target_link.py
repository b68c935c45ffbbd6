"""How one answer reaches a target: a stream opened when needed, and at another replica after trouble.

Where none is left one is waited for, within the request's patience, because every cache can be rebuilt. It does not
know the acceptance loop.
"""

import asyncio
import time
from dataclasses import replace

from opentelemetry.trace import Span

from orchestrator.deadlines import fresh
from orchestrator.exchange import Way
from orchestrator.member import Member
from orchestrator.peers import Verdict
from orchestrator.place import Place
from orchestrator.pool import Needs, Pool
from orchestrator.round_stream import StreamOptions
from orchestrator.target_stream import TargetStream
from outrider import semconv
from outrider.errors import Cancelled, NonFiniteLogits, OutriderError, ProtocolViolation, ResourceExhausted, Unavailable
from outrider.tokens import CacheMiss, Claim
from outrider.wire import Numerics

_METHOD = "outrider.v1.TargetService/Verify"
_ITS_OWN = (OutriderError, NonFiniteLogits)
"""What may be the request's fault or that of the target: another target tells."""
_MOST_CANCELLED = 8
"""Rounds of one answer that a target may give up; more are no accident."""
_NO_ROOM_S = 0.5
"""Pause before targets that had no room for a running answer, or none that will do, are looked at again."""


class TargetLink:
    """A session's way to the targets; implements ``peers.Target``. ``crossed``: the answer went on at a target whose
    numerics differ from those it began with, because no other was left."""

    def __init__(self, pool: Pool, place: Place, options: StreamOptions, patience_s: float, needs: Needs) -> None:
        self._needs = needs
        self._pool = pool
        self._place = place
        self._options = options
        self._patience_s = patience_s
        self._opened = time.monotonic()
        self._member: Member | None = None
        self._term = 0
        self._stream: TargetStream | None = None
        self._full: set[str] = set()
        self._cancelled = 0
        self._suspects: list[tuple[Member, int, str]] = []
        self.crossed = False

    @property
    def numerics(self) -> Numerics | None:
        """Those that the answer began with, as soon as it has a target."""
        return self._needs.like

    @property
    def coming(self) -> int:
        """Verdicts of a run that are still to come; a lost stream brings none."""
        return self._stream.coming if self._stream is not None else 0

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, span: Span
    ) -> Verdict | CacheMiss:
        """A target's choices; while none can be had, wait for one as long as patience lasts.

        Targets without room refuse the answer at its first round only; later it waits for one like for a lost one.
        """
        give_up = time.monotonic() + self._patience_s
        lost: set[str] = set()
        self._move_on()
        while True:
            if self._stream is None:
                self._stream = await self._open(give_up - time.monotonic())
            member = self._member
            assert member is not None
            try:
                answer = await self._stream.verify(number, claim, block, run, span)
            except OutriderError as error:
                self._tell(error, member, span)
                if not await self._can_go_on(error, member, number, lost, give_up):
                    raise
            else:
                member.patience.succeeded()
                self._convict()
                return answer

    def _tell(self, error: OutriderError, member: Member, span: Span) -> None:
        """The answer leaves a target, or would."""
        self._pool.meters.failovers.add(1, "target", type(error).__name__)
        reason = {semconv.REASON: type(error).__name__, semconv.SERVER_ADDRESS: member.address}
        span.add_event(semconv.EVENT_FAILOVER, reason)

    async def _can_go_on(
        self, error: OutriderError, member: Member, number: int, lost: set[str], give_up: float
    ) -> bool:
        """Whether the round is worth another try, here or elsewhere, after what a target said; ``lost`` grows by it."""
        if isinstance(error, Cancelled):  # somebody has released its session there, or the engine has stopped
            self.close()
            self._cancelled += 1
            return self._cancelled <= _MOST_CANCELLED
        if isinstance(error, ResourceExhausted):
            self.close()
            return await self._elsewhere(member, number, give_up)
        if isinstance(error, Unavailable | ProtocolViolation):
            self.close()
            member.failed(error.message, self._term)
            lost.add(member.address)
            return self._worth_going_on(error, lost, give_up)
        if type(error) in _ITS_OWN:
            self.close()
            lost.add(member.address)
            self._suspects.append((member, self._term, error.message))
            return self._others(lost) is not None
        return False

    def _convict(self) -> None:
        """Another target did what these could not, so it was not for the request."""
        for member, term, reason in self._suspects:
            member.failed(reason, term)
        self._suspects.clear()

    def _worth_going_on(self, error: OutriderError, lost: set[str], give_up: float) -> bool:
        """Whether there is a target that this round has not lost yet, or one of them is worth waiting for."""
        if self._others(lost) is not None:
            return True
        return not isinstance(error, ProtocolViolation) and time.monotonic() < give_up

    def _others(self, avoid: set[str]) -> Member | None:
        return self._pool.choose(self._place.key, self._place.address, avoid, self._needs)

    def _move_on(self) -> None:
        """Leave a target that drains or is in trouble between two runs, where there is another one of its numerics:
        one that drains ends what it has, so there is no need to cross yet."""
        member = self._member
        if member is None or self.coming or member.staying:
            return
        other = self._others({*self._full, member.address})
        if other is not None and other.staying and other.facts is not None and other.facts.numerics == self._needs.like:
            self._place.address = other.address
            self.close()

    async def _elsewhere(self, member: Member, number: int, give_up: float) -> bool:
        """A target has no room: whether to try another one, or in the middle of an answer, later, all of them again."""
        self._full.add(member.address)
        if self._others(self._full) is not None:
            return True
        if number == 0 or time.monotonic() >= give_up:
            return False
        self._full.clear()
        await asyncio.sleep(_NO_ROOM_S)
        return True

    async def _open(self, patience_s: float) -> TargetStream:
        try:
            async with asyncio.timeout(max(0.0, patience_s)):
                member = await self._choose()
        except TimeoutError:
            raise Unavailable(f"no target for this answer: {self._pool.reason}", retry_after_s=1.0) from None
        assert member.facts is not None
        moved = self._place.address not in ("", member.address)
        way = Way(member.address, _METHOD, self._pool.meters.tiers["target"], moved)
        stream = TargetStream(member.channel, member.facts, fresh(self._options, self._opened), way)
        self._member, self._term, self._place.address = member, member.term, member.address
        if self._needs.like is None:
            self._needs = replace(self._needs, like=member.facts.numerics)
        self.crossed = self.crossed or member.facts.numerics != self._needs.like
        member.streams.add(stream)
        return stream

    async def _choose(self) -> Member:
        while True:
            await self._pool.wait()
            avoid = {*self._full, *(member.address for member, _, _ in self._suspects)}
            member = self._others(avoid) or self._others(set())  # those that had room may have gone meanwhile
            if member is not None:
                return member
            await asyncio.sleep(_NO_ROOM_S)

    def close(self) -> None:
        """End the stream, if any."""
        if self._stream is not None:
            self._stream.close()
            if self._member is not None:
                self._member.streams.discard(self._stream)
            self._stream = self._member = None
