"""gRPC client of a draft: one bidirectional stream per session, one message per round.

It turns messages into the session's values and checks every answer: junk, another round or another incarnation raises
an error here and never reaches the acceptance loop. It does not know pools, nor sessions beyond an id.
"""

from dataclasses import dataclass

import grpc
from opentelemetry.trace import Span

from orchestrator.exchange import Exchange, Way
from orchestrator.peer_answers import check_ids, check_incarnation, check_length, read_miss
from orchestrator.peers import Outcome, Prepared, Proposal
from orchestrator.round_stream import RoundStream, StreamOptions
from outrider import semconv
from outrider.errors import ProtocolViolation
from outrider.round_timings import RoundTimings
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import draft_pb2, draft_pb2_grpc
from outrider.wire import ReplicaFacts


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A look-ahead whose answer nobody has taken up: what it asked for, and its span."""

    claim: Claim
    block: tuple[int, ...]
    count: int
    exchange: Exchange


class DraftStream:
    """One session's stream to one draft replica."""

    def __init__(self, channel: grpc.aio.Channel, facts: ReplicaFacts, options: StreamOptions, way: Way) -> None:
        self._facts = facts
        self._way = way
        self._ahead: _Ahead | None = None
        self._preparation_s: float | None = None
        self._stream = RoundStream(draft_pb2_grpc.DraftServiceStub(channel).Propose, options)

    async def propose(
        self, number: int, claim: Claim, count: int, parent: Span, late: Outcome | None = None
    ) -> Proposal | CacheMiss:
        """Ask for a block of at most ``count`` tokens; what was prepared for the outcome ``late`` may come first."""
        if late is None:
            self._give_up()
        prepared: list[Proposal] = []

        def will_do(response: draft_pb2.ProposeResponse) -> bool:
            found = self._prepared_for(late, response, count)
            prepared.extend([found] if found is not None else [])
            return found is not None

        exchange = Exchange(self._way, semconv.SPAN_PROPOSE_CLIENT, number, claim, parent)
        with exchange:
            request = self._request(exchange, claim, count)
            response = await self._stream.ask(request, will_do)
            exchange.sent(request)
            self._give_up()
            if prepared:
                return prepared[0]
            exchange.answered(response)
            return self._read(response, claim, count, exchange.timings)

    def _prepared_for(
        self, outcome: Outcome | None, response: draft_pb2.ProposeResponse, count: int
    ) -> Proposal | None:
        """What a look-ahead whose answer is late has for the outcome, if anything."""
        found = self._take_up(response)  # None where it was given up, as without an outcome
        if outcome is None or not isinstance(found, Prepared) or outcome not in found.blocks:
            return None
        return Proposal(found.blocks[outcome][:count], found.cached_len, prepared=True)

    async def look_ahead(
        self, number: int, claim: Claim, block: tuple[int, ...], fanout: tuple[int, ...], count: int, parent: Span
    ) -> None:
        """Ask for blocks of ``count`` tokens after outcomes of a block in flight; ``prepared`` has them later."""
        self._give_up()
        self._preparation_s = None  # of an answer that came when nobody asked for it any more
        exchange = Exchange(self._way, semconv.SPAN_LOOK_AHEAD_CLIENT, number, claim, parent)
        exchange.span.set_attribute(semconv.OUTCOMES, sum(fanout))
        request = self._request(exchange, claim, count)
        request.look_ahead.draft_tokens.extend(block)
        request.look_ahead.fanout.extend(fanout)
        self._ahead = ahead = _Ahead(claim, block, count, exchange)
        await self._stream.send(request, lambda response: self._arrived(ahead, response))
        exchange.sent(request)

    def _arrived(self, ahead: _Ahead, response: draft_pb2.ProposeResponse) -> None:
        """The answer to a look-ahead has come."""
        ahead.exchange.arrived(response)
        if self._ahead is ahead:
            self._preparation_s = ahead.exchange.elapsed_s

    def preparation_s(self) -> float | None:
        """Seconds that the answer to the last look-ahead took, if it has come since this was last asked."""
        took, self._preparation_s = self._preparation_s, None
        return took

    def _give_up(self) -> None:
        """An answer that has not been taken up by now is not wanted any more."""
        if self._ahead is not None:
            self._ahead.exchange.over(taken_up=False)
            self._ahead = None

    def prepared(self) -> Prepared | CacheMiss | None:
        """What the last look-ahead has brought by now; None when nothing. Told once."""
        response = self._stream.arrived()
        return self._take_up(response) if response is not None else None

    def _take_up(self, response: draft_pb2.ProposeResponse) -> Prepared | CacheMiss | None:
        """The answer to the look-ahead, unless it was given up."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        ahead.exchange.arrived(response)
        ahead.exchange.span.set_attribute(semconv.TAKEN_UP, True)
        with ahead.exchange:
            return self._read_prepared(response, ahead)

    def _read_prepared(self, response: draft_pb2.ProposeResponse, ahead: _Ahead) -> Prepared | CacheMiss:
        check_incarnation(response, self._facts)
        if response.WhichOneof("outcome") == "cache_miss":
            return read_miss(response, ahead.claim)
        if response.WhichOneof("outcome") != "continuations":
            raise ProtocolViolation("a look-ahead without an outcome")
        found = response.continuations.continuations
        return Prepared(dict(self._continuation(each, ahead.block, ahead.count) for each in found), ahead.claim.end)

    def _continuation(
        self, message: draft_pb2.Continuation, block: tuple[int, ...], count: int
    ) -> tuple[tuple[int, int], tuple[int, ...]]:
        accepted = check_length("num_accepted", message.num_accepted, 0, len(block))
        check_length("number of draft tokens", len(message.tokens), 1, count)
        token = check_ids("next_token", [message.next_token], self._facts.vocab_size)[0]
        return (accepted, token), check_ids("tokens", message.tokens, self._facts.vocab_size)

    def _request(self, exchange: Exchange, claim: Claim, count: int) -> draft_pb2.ProposeRequest:
        return draft_pb2.ProposeRequest(
            round=exchange.number,
            prefix_len=claim.prefix_len,
            prefix_digest=claim.prefix_digest,
            tokens=claim.tokens,
            max_draft_tokens=min(count, self._facts.max_draft_tokens),
            traceparent=exchange.traceparent,
        )

    def _read(
        self, response: draft_pb2.ProposeResponse, claim: Claim, count: int, timings: RoundTimings
    ) -> Proposal | CacheMiss:
        check_incarnation(response, self._facts)
        if response.WhichOneof("outcome") == "cache_miss":
            return read_miss(response, claim)
        if response.WhichOneof("outcome") != "block":
            raise ProtocolViolation("a proposal without an outcome")
        block = response.block
        check_length("number of draft tokens", len(block.tokens), 0, count)
        most = claim.end + len(block.tokens)
        return Proposal(
            check_ids("draft_tokens", block.tokens, self._facts.vocab_size),
            check_length("cached_len", block.cached_len, 0, most),
            timings,
        )

    def abandon(self, reason: str) -> None:
        """The replica is lost: whoever waits for an answer gets Unavailable."""
        self._stream.abandon(reason)

    def close(self) -> None:
        """End the stream."""
        self._give_up()
        self._stream.close()
