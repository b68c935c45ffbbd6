"""gRPC clients of draft and target: one bidirectional stream per session, one message per round.

They turn messages into the session's values and check every answer: a peer that answers junk, another round
or from another incarnation raises an error here and never reaches the acceptance loop. They do not know
pools or sessions beyond an id.
"""

from collections.abc import Sequence
from typing import Any

import grpc
from opentelemetry.trace import Span, SpanKind

from orchestrator.peers import Prepared, Proposal, Verdict
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


def _describe(span: Span, response: Any) -> None:
    timings = timings_from_pb(response.timings)
    span.set_attributes(
        {
            telemetry.CACHE_MISS: response.WhichOneof("outcome") == "cache_miss",
            telemetry.QUEUE_US: timings.queue_us,
            telemetry.FORWARD_US: timings.forward_us,
            telemetry.BATCH_ROWS: timings.batch_rows,
        }
    )


def _client_span(name: str, parent: Span, claim: Claim) -> Span:
    attributes = {telemetry.PREFIX_LEN: claim.prefix_len}
    return telemetry.tracer().start_span(name, telemetry.child_of(parent), SpanKind.CLIENT, attributes)


class DraftStream:
    """One session's stream to one draft replica."""

    def __init__(self, channel: grpc.aio.Channel, facts: ReplicaFacts, options: StreamOptions) -> None:
        self._facts = facts
        self._ahead: tuple[Claim, tuple[int, ...], int] | None = None
        self._stream = RoundStream(draft_pb2_grpc.DraftServiceStub(channel).Propose, options)

    async def propose(self, number: int, claim: Claim, count: int, parent: Span) -> Proposal | CacheMiss:
        """Ask for a block of at most ``count`` tokens."""
        span = _client_span(telemetry.SPAN_PROPOSE_CLIENT, parent, claim)
        with telemetry.ending(span):
            response = await self._stream.ask(self._request(number, claim, count, span))
            _describe(span, response)
            return self._read(response, claim, count)

    async def look_ahead(
        self, number: int, claim: Claim, block: tuple[int, ...], fanout: tuple[int, ...], count: int, parent: Span
    ) -> None:
        """Ask for blocks of ``count`` tokens after outcomes of a block in flight; ``prepared`` has them later."""
        request = self._request(number, claim, count, parent)
        request.look_ahead.draft_tokens.extend(block)
        request.look_ahead.fanout.extend(fanout)
        self._ahead = (claim, block, count)
        await self._stream.send(request)

    def prepared(self) -> Prepared | CacheMiss | None:
        """What the last look-ahead has brought by now; None when nothing. Told once."""
        response = self._stream.arrived()
        if response is None or self._ahead is None:
            return None
        claim, block, count = self._ahead
        self._ahead = None
        _check_incarnation(response, self._facts)
        if response.WhichOneof("outcome") == "cache_miss":
            return _read_miss(response, claim)
        if response.WhichOneof("outcome") != "continuations":
            raise ProtocolViolation("a look-ahead without an outcome")
        found = [self._continuation(each, block, count) for each in response.continuations.continuations]
        return Prepared(dict(found), claim.end)

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

    def close(self) -> None:
        """End the stream."""
        self._stream.close()


class TargetStream:
    """One session's stream to one target replica. ``coming`` counts the answers of a run that are still to come."""

    def __init__(self, channel: grpc.aio.Channel, facts: ReplicaFacts, options: StreamOptions) -> None:
        self._facts = facts
        self._logprobs = options.logprobs
        self.coming = 0
        self._stream = RoundStream(target_pb2_grpc.TargetServiceStub(channel).Verify, options)

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, parent: Span
    ) -> Verdict | CacheMiss:
        """Ask which tokens of the block the target chooses too, unless a run brings the answer by itself."""
        span = _client_span(telemetry.SPAN_VERIFY_CLIENT, parent, claim)
        with telemetry.ending(span):
            if self.coming:
                self.coming -= 1
                response = await self._stream.next_answer(number)
            else:
                request = self._request(number, claim, block, span)
                request.run = min(run, self._facts.max_run)
                response = await self._stream.ask(request)
                self.coming = request.run
            _describe(span, response)
            return self._read(response, claim, block)

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
