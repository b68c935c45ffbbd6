"""How one answer reaches a draft and a target: streams opened when needed, and after trouble at another replica.

A replica in trouble is reported and left; where no draft is left rounds go on without, and where no target is left
one is waited for, within the request's patience, because every cache can be rebuilt. They do not know the acceptance
loop.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator

from opentelemetry.trace import Span

from orchestrator.clients import DraftStream, TargetStream
from orchestrator.member import Member, State
from orchestrator.peers import Outcome, Prepared, Proposal, Verdict
from orchestrator.place import Place
from orchestrator.pool import Pool
from orchestrator.round_stream import StreamOptions
from outrider.errors import (
    DeadlineExceeded,
    InvalidArgument,
    OutriderError,
    ProtocolViolation,
    ResourceExhausted,
    Unavailable,
)
from outrider.tokens import CacheMiss, Claim
from outrider.wire import Numerics

log = logging.getLogger(__name__)
_CLOCK_S = 0.01
"""A call ends by its deadline up to so much before our own clock says so."""
_NO_ROOM_S = 0.5
"""Pause before a target that had no room for a running answer is asked again."""


def _fresh(options: StreamOptions, opened: float) -> StreamOptions:
    """Options for a stream opened now: the deadline counts from the request's start."""
    if _over(options, opened):
        raise DeadlineExceeded("the request's time is over")
    return dataclasses.replace(options, deadline_s=_left(options, opened))


def _left(options: StreamOptions, opened: float) -> float | None:
    """Seconds that a request has left; None for one without a deadline."""
    return None if options.deadline_s is None else options.deadline_s - (time.monotonic() - opened)


def _over(options: StreamOptions, opened: float) -> bool:
    """Whether a request's time is over: what fails then is nobody's fault."""
    left = _left(options, opened)
    return left is not None and left <= _CLOCK_S


_REFUSALS = (InvalidArgument, ResourceExhausted)
"""What a draft answers when this one session does not suit it; it may serve others well."""


class DraftLink:
    """A session's way to the drafts; implements ``peers.Draft``."""

    def __init__(self, pool: Pool, place: Place, options: StreamOptions, vocab_size: int) -> None:
        """``vocab_size`` is the target's: what a draft says of itself cannot let more through."""
        self._pool = pool
        self._place = place
        self._options = options
        self._vocab_size = vocab_size
        self._opened = time.monotonic()
        self._member: Member | None = None
        self._stream: DraftStream | None = None
        self._refused: set[str] = set()

    @property
    def available(self) -> bool:
        """Whether a draft is worth asking now."""
        return (self._member is not None and self._member.state is State.READY) or self._choose() is not None

    def _choose(self) -> Member | None:
        return self._pool.choose(self._place.key, self._place.address, self._refused)

    async def propose(
        self, number: int, claim: Claim, count: int, span: Span, late: Outcome | None = None
    ) -> Proposal | CacheMiss:
        """A block, or any error: then the member backs off and the stream is gone."""
        with self._minding():
            answer = await self._open().propose(number, claim, count, span, late)
        if isinstance(answer, Proposal) and self._member is not None:
            self._member.succeeded()
        return answer

    async def look_ahead(
        self, number: int, claim: Claim, block: tuple[int, ...], fanout: tuple[int, ...], count: int, span: Span
    ) -> None:
        """Ask for blocks after outcomes of a verdict in flight. Raises what ``propose`` raises."""
        with self._minding():
            await self._open().look_ahead(number, claim, block, fanout, count, span)

    def prepared(self) -> Prepared | CacheMiss | None:
        """What the last look-ahead has brought by now. Raises what ``propose`` raises."""
        with self._minding():
            return self._stream.prepared() if self._stream is not None else None

    def preparation_s(self) -> float | None:
        """Seconds that the answer to the last look-ahead took, if it has come since this was last asked."""
        return self._stream.preparation_s() if self._stream is not None else None

    def _open(self) -> DraftStream:
        if self._member is not None and not self._member.staying and self._choose() is not self._member:
            self.close()  # another session has found it in trouble, or it drains
        if self._stream is None:
            self._member = member = self._choose()
            if member is None:
                raise Unavailable(self._pool.reason)
            assert member.channel is not None and member.facts is not None
            facts = dataclasses.replace(member.facts, vocab_size=min(member.facts.vocab_size, self._vocab_size))
            self._stream = DraftStream(member.channel, facts, _fresh(self._options, self._opened))
            self._place.address = member.address
            member.streams.add(self._stream)
        return self._stream

    @contextlib.contextmanager
    def _minding(self) -> Iterator[None]:
        """Any error ends the stream; the member backs off for what is its fault."""
        try:
            yield
        except Exception as error:
            member = self._member
            self.close()
            if not isinstance(error, OutriderError):
                log.exception("the draft %s answered in a way nobody foresaw", self._place.address)
                error = ProtocolViolation(f"unforeseen: {error!r}")
            if member is not None:
                self._blame(member, error)
            raise error from None

    def _blame(self, member: Member, error: OutriderError) -> None:
        if isinstance(error, _REFUSALS):
            self._refused.add(member.address)
        elif not _over(self._options, self._opened):
            member.failed(error.message)

    def close(self) -> None:
        """End the stream, if any."""
        if self._stream is not None:
            self._stream.close()
            if self._member is not None:
                self._member.streams.discard(self._stream)
            self._stream = self._member = None


class TargetLink:
    """A session's way to the targets; implements ``peers.Target``. ``crossed``: the answer went on at a target whose
    numerics differ from those it began with, because no other was left."""

    def __init__(self, pool: Pool, place: Place, options: StreamOptions, patience_s: float) -> None:
        self._pool = pool
        self._place = place
        self._options = options
        self._patience_s = patience_s
        self._opened = time.monotonic()
        self._member: Member | None = None
        self._stream: TargetStream | None = None
        self._full: set[str] = set()
        self._numerics: Numerics | None = None
        self.crossed = False

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
        self._move_on()
        while True:
            if self._stream is None:
                self._stream = await self._open(give_up - time.monotonic())
            member = self._member
            assert member is not None
            try:
                answer = await self._stream.verify(number, claim, block, run, span)
            except (Unavailable, ProtocolViolation) as error:
                self.close()
                member.failed(error.message)
                if time.monotonic() >= give_up or (isinstance(error, ProtocolViolation) and not self._pool.ready):
                    raise
            except ResourceExhausted:
                self.close()
                if not await self._elsewhere(member, number, give_up):
                    raise
            else:
                member.succeeded()
                return answer

    def _move_on(self) -> None:
        """Leave a target that drains or is in trouble between two runs, where there is another one of its numerics:
        one that drains ends what it has, so there is no need to cross yet."""
        member = self._member
        if member is None or self.coming or member.staying:
            return
        other = self._pool.choose(self._place.key, avoid={*self._full, member.address}, like=self._numerics)
        if other is not None and other.staying and other.facts is not None and other.facts.numerics == self._numerics:
            self._place.address = other.address
            self.close()

    async def _elsewhere(self, member: Member, number: int, give_up: float) -> bool:
        """A target has no room: whether to try another one, or in the middle of an answer, later, all of them again."""
        self._full.add(member.address)
        if self._pool.choose(self._place.key, avoid=self._full) is not None:
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
            raise Unavailable(f"no target: {self._pool.reason}", retry_after_s=1.0) from None
        assert member.channel is not None and member.facts is not None
        stream = TargetStream(member.channel, member.facts, _fresh(self._options, self._opened))
        self._member, self._place.address = member, member.address
        self._numerics = self._numerics or member.facts.numerics
        self.crossed = self.crossed or member.facts.numerics != self._numerics
        member.streams.add(stream)
        return stream

    async def _choose(self) -> Member:
        while True:
            await self._pool.wait()
            member = self._pool.choose(self._place.key, self._place.address, self._full, self._numerics)
            if member is not None:
                return member
            self._full.clear()  # those that had room have gone meanwhile

    def close(self) -> None:
        """End the stream, if any."""
        if self._stream is not None:
            self._stream.close()
            if self._member is not None:
                self._member.streams.discard(self._stream)
            self._stream = self._member = None
