"""How one answer reaches its draft and its target: streams opened when needed and again after trouble.

A draft in trouble is reported and left; a target in trouble is waited for, within the request's patience,
because every cache can be rebuilt. They do not know the acceptance loop.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator

from opentelemetry.trace import Span

from orchestrator.clients import DraftStream, TargetStream
from orchestrator.peers import Outcome, Prepared, Proposal, Verdict
from orchestrator.pools import Member, State
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
    """A session's way to the draft; implements ``peers.Draft``."""

    def __init__(self, member: Member, options: StreamOptions, vocab_size: int) -> None:
        """``vocab_size`` is the target's: what a draft says of itself cannot let more through."""
        self._member = member
        self._options = options
        self._vocab_size = vocab_size
        self._opened = time.monotonic()
        self._stream: DraftStream | None = None
        self._refused = False

    @property
    def available(self) -> bool:
        """Whether the draft is worth asking now."""
        return self._member.state is State.READY and not self._refused

    async def propose(
        self, number: int, claim: Claim, count: int, span: Span, late: Outcome | None = None
    ) -> Proposal | CacheMiss:
        """A block, or any error: then the member backs off and the stream is gone."""
        with self._minding():
            answer = await self._open().propose(number, claim, count, span, late)
        if isinstance(answer, Proposal):
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
        if self._stream is None:
            assert self._member.channel is not None and self._member.facts is not None
            facts = self._member.facts
            facts = dataclasses.replace(facts, vocab_size=min(facts.vocab_size, self._vocab_size))
            self._stream = DraftStream(self._member.channel, facts, _fresh(self._options, self._opened))
        return self._stream

    @contextlib.contextmanager
    def _minding(self) -> Iterator[None]:
        """Any error ends the stream; the member backs off for what is its fault."""
        try:
            yield
        except Exception as error:
            self.close()
            if not isinstance(error, OutriderError):
                log.exception("the draft %s answered in a way nobody foresaw", self._member.address)
                error = ProtocolViolation(f"unforeseen: {error!r}")
            self._refused = isinstance(error, _REFUSALS)
            if not self._refused and not _over(self._options, self._opened):
                self._member.failed(error.message)
            raise error from None

    def close(self) -> None:
        """End the stream, if any."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class TargetLink:
    """A session's way to the target; implements ``peers.Target``."""

    def __init__(self, member: Member, options: StreamOptions, patience_s: float) -> None:
        self._member = member
        self._options = options
        self._patience_s = patience_s
        self._opened = time.monotonic()
        self._stream: TargetStream | None = None

    @property
    def coming(self) -> int:
        """Verdicts of a run that are still to come; a lost stream brings none."""
        return self._stream.coming if self._stream is not None else 0

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, span: Span
    ) -> Verdict | CacheMiss:
        """The target's choices; while it is away, wait for it as long as patience lasts.

        A target without room refuses the answer at its first round only; later it is waited for like a lost one.
        """
        give_up = time.monotonic() + self._patience_s
        while True:
            if self._stream is None:
                self._stream = await self._open(give_up - time.monotonic())
            try:
                answer = await self._stream.verify(number, claim, block, run, span)
            except Unavailable as error:
                self.close()
                self._member.failed(error.message)
                if time.monotonic() >= give_up:
                    raise
            except ResourceExhausted:
                self.close()
                if number == 0 or time.monotonic() >= give_up:
                    raise
                await asyncio.sleep(_NO_ROOM_S)
            else:
                self._member.succeeded()
                return answer

    async def _open(self, patience_s: float) -> TargetStream:
        try:
            async with asyncio.timeout(max(0.0, patience_s)):
                await self._member.ready.wait()
        except TimeoutError:
            words = f"target {self._member.address} is away: {self._member.reason}"
            raise Unavailable(words, retry_after_s=1.0) from None
        assert self._member.channel is not None and self._member.facts is not None
        return TargetStream(self._member.channel, self._member.facts, _fresh(self._options, self._opened))

    def close(self) -> None:
        """End the stream, if any."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
