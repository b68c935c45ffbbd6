"""gRPC clients of draft and target: one bidirectional stream per session, one message per round.

They turn messages into the session's values and check every answer: a peer that answers junk, another round
or from another incarnation raises an error here and never reaches the acceptance loop. They do not know
pools or sessions beyond an id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.trace import Span

from orchestrator.exchange import Exchange
from orchestrator.peers import Outcome, Prepared, Proposal, Verdict
from orchestrator.round_stream import RoundStream, StreamOptions
from outrider import telemetry
from outrider.errors import InvalidArgument, ProtocolViolation, Unavailable
from outrider.status import from_rpc_error
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc, target_pb2, target_pb2_grpc
from outrider.wire import ReplicaFacts, check_tokens, facts_from_pb, timings_from_pb

_HANDSHAKE_S = 2.0


def _check_incarnation(response: Any, facts: ReplicaFacts) -> None:
    if response.incarnation != facts.incarnation:
        raise Unavailable("the replica has restarted")


def _check_length(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ProtocolViolation(f"{name} is {value}, must be {least} to {most}")
    return value


def _check_ids(name: str, ids: Sequence[int], vocab_size: int) -> tuple[int, ...]:
    """The ids of an answer. One that does not exist is the peer's fault, not the request's."""
    try:
        return check_tokens(name, ids, vocab_size)
    except InvalidArgument as error:
        raise ProtocolViolation(error.message) from None


def _read_miss(response: Any, claim: Claim) -> CacheMiss:
    """A cache that does not have a prefix has less of it: what it names shrinks with every claim, and the empty one
    always holds."""
    offered = response.cache_miss.cached_len
    if offered >= claim.prefix_len:
        raise ProtocolViolation(f"cache miss at {claim.prefix_len} tokens offers {offered}")
    return CacheMiss(offered)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A look-ahead whose answer nobody has taken up: what it asked for, and its span."""

    claim: Claim
    block: tuple[int, ...]
    count: int
    exchange: Exchange


class DraftStream:
    """One session's stream to one draft replica."""

    def __init__(self, channel: grpc.aio.Channel, facts: ReplicaFacts, options: StreamOptions) -> None:
        self._facts = facts
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

        exchange = Exchange(telemetry.SPAN_PROPOSE_CLIENT, number, claim, parent)
        with telemetry.ending(exchange.span):
            request = self._request(number, claim, count, exchange.span)
            response = await self._stream.ask(request, will_do)
            exchange.sent(request)
            self._give_up()
            if prepared:
                return prepared[0]
            exchange.answered(response)
            return self._read(response, claim, count)

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
        exchange = Exchange(telemetry.SPAN_LOOK_AHEAD_CLIENT, number, claim, parent)
        exchange.span.set_attribute(telemetry.OUTCOMES, sum(fanout))
        request = self._request(number, claim, count, exchange.span)
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
        with telemetry.ending(ahead.exchange.span):
            ahead.exchange.span.set_attribute(telemetry.TAKEN_UP, True)
            return self._read_prepared(response, ahead)

    def _read_prepared(self, response: draft_pb2.ProposeResponse, ahead: _Ahead) -> Prepared | CacheMiss:
        _check_incarnation(response, self._facts)
        if response.WhichOneof("outcome") == "cache_miss":
            return _read_miss(response, ahead.claim)
        if response.WhichOneof("outcome") != "continuations":
            raise ProtocolViolation("a look-ahead without an outcome")
        found = response.continuations.continuations
        return Prepared(dict(self._continuation(each, ahead.block, ahead.count) for each in found), ahead.claim.end)

    def _continuation(
        self, message: draft_pb2.Continuation, block: tuple[int, ...], count: int
    ) -> tuple[tuple[int, int], tuple[int, ...]]:
        accepted = _check_length("num_accepted", message.num_accepted, 0, len(block))
        _check_length("number of draft tokens", len(message.tokens), 1, count)
        token = _check_ids("next_token", [message.next_token], self._facts.vocab_size)[0]
        return (accepted, token), _check_ids("tokens", message.tokens, self._facts.vocab_size)

    def _request(self, number: int, claim: Claim, count: int, span: Span) -> draft_pb2.ProposeRequest:
        return draft_pb2.ProposeRequest(
            round=number,
            prefix_len=claim.prefix_len,
            prefix_digest=claim.prefix_digest,
            tokens=claim.tokens,
            max_draft_tokens=min(count, self._facts.max_draft_tokens),
            traceparent=telemetry.inject(span),
        )

    def _read(self, response: draft_pb2.ProposeResponse, claim: Claim, count: int) -> Proposal | CacheMiss:
        _check_incarnation(response, self._facts)
        if response.WhichOneof("outcome") == "cache_miss":
            return _read_miss(response, claim)
        if response.WhichOneof("outcome") != "block":
            raise ProtocolViolation("a proposal without an outcome")
        block = response.block
        _check_length("number of draft tokens", len(block.tokens), 0, count)
        most = claim.end + len(block.tokens)
        return Proposal(
            _check_ids("draft_tokens", block.tokens, self._facts.vocab_size),
            _check_length("cached_len", block.cached_len, 0, most),
            timings_from_pb(response.timings),
        )

    def abandon(self, reason: str) -> None:
        """The replica is lost: whoever waits for an answer gets Unavailable."""
        self._stream.abandon(reason)

    def close(self) -> None:
        """End the stream."""
        self._give_up()
        self._stream.close()


class TargetStream:
    """One session's stream to one target replica. ``coming`` counts the answers of a run that are still to come."""

    def __init__(self, channel: grpc.aio.Channel, facts: ReplicaFacts, options: StreamOptions) -> None:
        self._facts = facts
        self._logprobs = options.logprobs
        self.coming = 0
        self._follows = 0  # the round of the run that comes next
        self._first: Exchange | None = None  # whose message asked for the run
        self._stream = RoundStream(target_pb2_grpc.TargetServiceStub(channel).Verify, options)

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, parent: Span
    ) -> Verdict | CacheMiss:
        """Ask which tokens of the block the target chooses too, unless a run brings the answer by itself. Another
        round than the next of the run ends it: its verdicts that are still on their way are passed over."""
        exchange = Exchange(telemetry.SPAN_VERIFY_CLIENT, number, claim, parent)
        if self.coming and number != self._follows:
            self._stream.pass_over(range(self._follows, self._follows + self.coming))
            self.coming = 0
        with telemetry.ending(exchange.span):
            response = await (self._follow(exchange) if self.coming else self._ask(exchange, claim, block, run))
            return self._read(response, claim, block)

    async def _ask(
        self, exchange: Exchange, claim: Claim, block: tuple[int, ...], run: int
    ) -> target_pb2.VerifyResponse:
        request = self._request(exchange.number, claim, block, exchange.span)
        request.run = min(run, self._facts.max_run)
        self._first = exchange
        exchange.in_run_of(exchange)
        response: target_pb2.VerifyResponse = await self._stream.ask(request)
        self.coming, self._follows = request.run, request.round + 1
        exchange.sent(request)
        exchange.answered(response)
        return response

    async def _follow(self, exchange: Exchange) -> target_pb2.VerifyResponse:
        """A round of the run that the last message asked for."""
        assert self._first is not None
        self.coming, self._follows = self.coming - 1, self._follows + 1
        exchange.in_run_of(self._first)
        response: target_pb2.VerifyResponse = await self._stream.next_answer(exchange.number)
        exchange.sent(None)
        exchange.answered(response, in_run=True)
        return response

    def _request(self, number: int, claim: Claim, block: tuple[int, ...], span: Span) -> target_pb2.VerifyRequest:
        return target_pb2.VerifyRequest(
            round=number,
            prefix_len=claim.prefix_len,
            prefix_digest=claim.prefix_digest,
            tokens=claim.tokens,
            draft_tokens=block,
            logprobs=self._logprobs,
            traceparent=telemetry.inject(span),
        )

    def _read(self, response: target_pb2.VerifyResponse, claim: Claim, block: tuple[int, ...]) -> Verdict | CacheMiss:
        _check_incarnation(response, self._facts)
        if response.WhichOneof("outcome") == "cache_miss":
            self.coming = 0
            return _read_miss(response, claim)
        if response.WhichOneof("outcome") != "verdict":
            raise ProtocolViolation("a verdict without an outcome")
        verdict = response.verdict
        accepted = _check_length("num_accepted", verdict.num_accepted, 0, len(block))
        wanted = accepted + 1 if self._logprobs else 0
        _check_length("number of log-probabilities", len(verdict.token_logprobs), wanted, wanted)
        return Verdict(
            num_accepted=accepted,
            next_token=_check_ids("next_token", [verdict.next_token], self._facts.vocab_size)[0],
            logprobs=tuple(verdict.token_logprobs),
            cached_len=_check_length("cached_len", verdict.cached_len, 0, claim.end + len(block)),
            shared=_check_length("shared_tokens", response.timings.shared_tokens, 0, len(claim.tokens) - 1),
            timings=timings_from_pb(response.timings),
            rounds=response.load.pending_rounds,
        )

    def abandon(self, reason: str) -> None:
        """The replica is lost: whoever waits for an answer gets Unavailable."""
        self._stream.abandon(reason)

    def close(self) -> None:
        """End the stream."""
        self._stream.close()


async def draft_facts(channel: grpc.aio.Channel) -> ReplicaFacts:
    """Handshake with a draft. Raises OutriderError."""
    return await _handshake(draft_pb2_grpc.DraftServiceStub(channel), draft_pb2.DraftServiceGetReplicaInfoRequest())


async def target_facts(channel: grpc.aio.Channel) -> ReplicaFacts:
    """Handshake with a target. Raises OutriderError."""
    return await _handshake(target_pb2_grpc.TargetServiceStub(channel), target_pb2.TargetServiceGetReplicaInfoRequest())


async def _handshake(stub: Any, request: Any) -> ReplicaFacts:
    try:
        response = await stub.GetReplicaInfo(request, timeout=_HANDSHAKE_S)
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
    if response is None:
        raise ProtocolViolation("a handshake that cannot be parsed")
    return facts_from_pb(response.info)


async def release_draft(channel: grpc.aio.Channel, session_id: str, tenant: str) -> None:
    """Free a session's cache at a draft. Raises OutriderError."""
    release = common_pb2.ReleaseRequest(session_id=session_id, tenant=tenant)
    await _release(draft_pb2_grpc.DraftServiceStub(channel), draft_pb2.DraftServiceReleaseRequest(release=release))


async def release_target(channel: grpc.aio.Channel, session_id: str, tenant: str) -> None:
    """Free a session's cache at a target. Raises OutriderError."""
    release = common_pb2.ReleaseRequest(session_id=session_id, tenant=tenant)
    await _release(target_pb2_grpc.TargetServiceStub(channel), target_pb2.TargetServiceReleaseRequest(release=release))


async def _release(stub: Any, request: Any) -> None:
    try:
        await stub.Release(request, timeout=_HANDSHAKE_S)
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
