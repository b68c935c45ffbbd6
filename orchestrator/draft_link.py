"""How one answer reaches a draft: a stream opened when needed, and at another replica after trouble.

A draft in trouble is reported and left; where none is left, rounds go on without. It does not know the acceptance loop.
"""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator

from opentelemetry.trace import Span

from orchestrator.deadlines import fresh, over
from orchestrator.draft_stream import DraftStream
from orchestrator.exchange import Way
from orchestrator.member import Member, State
from orchestrator.peers import Outcome, Prepared, Proposal
from orchestrator.place import Place
from orchestrator.pool import Pool
from orchestrator.round_stream import StreamOptions
from outrider.errors import InvalidArgument, OutriderError, ProtocolViolation, ResourceExhausted, Unavailable
from outrider.tokens import CacheMiss, Claim

log = logging.getLogger(__name__)
_METHOD = "outrider.v1.DraftService/Propose"
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
        self._term = 0
        self._stream: DraftStream | None = None
        self._refused: set[str] = set()

    @property
    def available(self) -> bool:
        """Whether a draft is worth asking now."""
        return (self._member is not None and self._member.state is State.READY) or self._pool.has(self._refused)

    def _choose(self) -> Member | None:
        return self._pool.choose(self._place.key, self._place.address, self._refused)

    async def propose(
        self, number: int, claim: Claim, count: int, span: Span, late: Outcome | None = None
    ) -> Proposal | CacheMiss:
        """A block, or any error: then the member backs off and the stream is gone."""
        with self._minding():
            answer = await self._open().propose(number, claim, count, span, late)
        if isinstance(answer, Proposal) and self._member is not None:
            self._member.patience.succeeded()
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
            assert member.facts is not None
            facts = dataclasses.replace(member.facts, vocab_size=min(member.facts.vocab_size, self._vocab_size))
            moved = self._place.address not in ("", member.address)
            way = Way(member.address, _METHOD, self._pool.meters.tiers["draft"], moved)
            self._stream = DraftStream(member.channel, facts, fresh(self._options, self._opened), way)
            self._term, self._place.address = member.term, member.address
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
                self._pool.meters.failovers.add(1, "draft", type(error).__name__)
                self._blame(member, error)
            raise error from None

    def _blame(self, member: Member, error: OutriderError) -> None:
        if isinstance(error, _REFUSALS):
            self._refused.add(member.address)
        elif not over(self._options, self._opened):
            member.failed(error.message, self._term)

    def close(self) -> None:
        """End the stream, if any."""
        if self._stream is not None:
            self._stream.close()
            if self._member is not None:
                self._member.streams.discard(self._stream)
            self._stream = self._member = None
