"""DraftService over gRPC: protobuf in, protobuf out. It knows messages and streams, not models."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from opentelemetry.trace import Span

from draft_service.drafter import Propose
from draft_service.look_ahead import LookAhead, check_fanout
from outrider import semconv, telemetry
from outrider.errors import InvalidArgument
from outrider.inference.batcher import Asked
from outrider.inference.job import Outcome
from outrider.inference.program import Program
from outrider.inference.replica import Replica
from outrider.inference.rounds import Opening, in_order, read_claim, read_release
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from outrider.wire import check_tokens, facts_to_pb, miss_to_pb, timings_to_pb

NAME = draft_pb2.DESCRIPTOR.services_by_name["DraftService"].full_name


class DraftService(draft_pb2_grpc.DraftServiceServicer):
    """One handler call per session's stream."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def Propose(self, requests: Any, context: Any) -> AsyncIterator[draft_pb2.ProposeResponse]:
        """Answer each round of a stream in order; one that looks ahead ends when the next one comes.

        Streams begin in the middle of answers all the time here, and an answer can do without a draft: where there is
        no room for one more, it is refused.
        """
        async for response in in_order(requests, self._replica.batcher, self._rounds, _looks_ahead, resumable=False):
            yield response

    async def _rounds(
        self, opening: Opening, request: draft_pb2.ProposeRequest
    ) -> AsyncGenerator[draft_pb2.ProposeResponse, None]:
        claim = self._claim(opening, request)
        yield await (self._look_ahead if _looks_ahead(request) else self._propose)(opening, request, claim)

    def _claim(self, opening: Opening, request: draft_pb2.ProposeRequest) -> Claim:
        """What every message says. Raises InvalidArgument."""
        claim = read_claim(request, opening, self._replica.facts.vocab_size)
        most = self._replica.facts.max_draft_tokens
        if not 1 <= request.max_draft_tokens <= most:
            raise InvalidArgument("max_draft_tokens", f"must be 1 to {most}, got {request.max_draft_tokens}")
        return claim

    @property
    def _longest(self) -> int:
        """Tokens that a session can have here. A draft with less room than the target has nothing to say beyond."""
        return min(self._replica.facts.max_positions, self._replica.facts.kv_capacity_tokens)

    async def _propose(
        self, opening: Opening, request: draft_pb2.ProposeRequest, claim: Claim
    ) -> draft_pb2.ProposeResponse:
        room = self._longest - claim.end + 1
        if room < 1:
            return self._response(request, block=draft_pb2.Block())
        program = Propose(opening.params, min(request.max_draft_tokens, room), self._replica.facts.vocab_size)
        with self._span(semconv.SPAN_PROPOSE_SERVER, opening, request) as span:
            outcome = await self._run(opening, claim, program, span)
        if isinstance(outcome.result, CacheMiss):
            return self._missed(request, outcome)
        block = draft_pb2.Block(tokens=outcome.result, cached_len=outcome.cached_len)
        return self._response(request, outcome, block=block)

    async def _look_ahead(
        self, opening: Opening, request: draft_pb2.ProposeRequest, claim: Claim
    ) -> draft_pb2.ProposeResponse:
        block, fanout = self._outcomes(request.look_ahead)
        if claim.end + len(block) > self._longest:
            return self._response(request, continuations=draft_pb2.Continuations())
        program = LookAhead(
            opening.params, block, fanout, request.max_draft_tokens, self._replica.facts.vocab_size, self._longest
        )
        with self._span(semconv.SPAN_LOOK_AHEAD_SERVER, opening, request) as span:
            span.set_attribute(semconv.OUTCOMES, sum(fanout))
            outcome = await self._run(opening, claim, program, span, optional=True)
            if isinstance(outcome.result, CacheMiss):
                return self._missed(request, outcome)
            found = _continuations(outcome, claim)
            span.set_attribute(semconv.CONTINUATIONS, len(found))
        return self._response(request, outcome, continuations=draft_pb2.Continuations(continuations=found))

    def _outcomes(self, message: draft_pb2.LookAhead) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The block in flight and the outcomes wanted. Raises InvalidArgument."""
        name, facts = "look_ahead.draft_tokens", self._replica.facts
        block = check_tokens(name, message.draft_tokens, facts.vocab_size)
        if len(block) > facts.max_draft_tokens:
            raise InvalidArgument(name, f"at most {facts.max_draft_tokens} tokens, got {len(block)}")
        return block, check_fanout(message.fanout, len(block))

    @contextlib.contextmanager
    def _span(self, name: str, opening: Opening, request: draft_pb2.ProposeRequest) -> Iterator[Span]:
        attributes = {
            semconv.SESSION_ID: opening.session_id,
            semconv.RPC_SYSTEM: "grpc",
            semconv.RPC_METHOD: f"{NAME}/Propose",
            semconv.ROUND: request.round,
            semconv.PREFIX_LEN: request.prefix_len,
        }
        with telemetry.serving(request.traceparent, name, attributes) as span:
            yield span

    async def _run(
        self, opening: Opening, claim: Claim, program: Program, span: Span, optional: bool = False
    ) -> Outcome:
        trace = span.get_span_context if span.is_recording() else None
        outcome = await self._replica.batcher.run(Asked(opening.name, claim, program, trace, opening.stream, optional))
        span.set_attributes(telemetry.outcome_attributes(outcome))
        self._replica.meters.answered(outcome)
        return outcome

    def _response(
        self, request: draft_pb2.ProposeRequest, outcome: Outcome | None = None, **answer: Any
    ) -> draft_pb2.ProposeResponse:
        timings = timings_to_pb(outcome.timings) if outcome else None
        incarnation = self._replica.facts.incarnation
        return draft_pb2.ProposeResponse(round=request.round, incarnation=incarnation, timings=timings, **answer)

    def _missed(self, request: draft_pb2.ProposeRequest, outcome: Outcome) -> draft_pb2.ProposeResponse:
        return self._response(request, outcome, cache_miss=miss_to_pb(outcome.result))

    async def Release(
        self, request: draft_pb2.DraftServiceReleaseRequest, context: Any
    ) -> draft_pb2.DraftServiceReleaseResponse:
        """Free a session's cache."""
        released = await self._replica.batcher.release(read_release(request.release))
        return draft_pb2.DraftServiceReleaseResponse(release=common_pb2.ReleaseResponse(released=released))

    async def GetReplicaInfo(
        self, request: draft_pb2.DraftServiceGetReplicaInfoRequest, context: Any
    ) -> draft_pb2.DraftServiceGetReplicaInfoResponse:
        """The handshake."""
        return draft_pb2.DraftServiceGetReplicaInfoResponse(info=facts_to_pb(self._replica.current_facts()))


def _looks_ahead(request: draft_pb2.ProposeRequest) -> bool:
    return request.HasField("look_ahead")


def _continuations(outcome: Outcome, claim: Claim) -> list[draft_pb2.Continuation]:
    """What the branches of a look-ahead propose; one whose logits are unusable has nothing to say."""
    return [
        draft_pb2.Continuation(num_accepted=branch.length - claim.end, next_token=branch.token, tokens=tokens)
        for branch, tokens in outcome.result
        if tokens
    ]
