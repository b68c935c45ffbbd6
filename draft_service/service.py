"""DraftService over gRPC: protobuf in, protobuf out. It knows messages and streams, not models."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from opentelemetry.trace import SpanKind

from draft_service.drafter import Propose
from outrider import telemetry
from outrider.errors import InvalidArgument
from outrider.inference.job import Outcome
from outrider.inference.replica import Replica
from outrider.inference.rounds import Opening, in_order, read_claim, read_release
from outrider.tokens import CacheMiss
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from outrider.wire import facts_to_pb, miss_to_pb, timings_to_pb

NAME = draft_pb2.DESCRIPTOR.services_by_name["DraftService"].full_name


class DraftService(draft_pb2_grpc.DraftServiceServicer):
    """One handler call per session's stream."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def Propose(self, requests: Any, context: Any) -> AsyncIterator[draft_pb2.ProposeResponse]:
        """Answer each round of a stream in order."""
        async for response in in_order(requests, self._replica.batcher, self._rounds):
            yield response

    async def _rounds(
        self, opening: Opening, request: draft_pb2.ProposeRequest
    ) -> AsyncGenerator[draft_pb2.ProposeResponse, None]:
        yield await self._round(opening, request)

    async def _round(self, opening: Opening, request: draft_pb2.ProposeRequest) -> draft_pb2.ProposeResponse:
        facts = self._replica.facts
        claim = read_claim(request, opening, facts.vocab_size)
        if not 1 <= request.max_draft_tokens <= facts.max_draft_tokens:
            allowed = f"must be 1 to {facts.max_draft_tokens}, got {request.max_draft_tokens}"
            raise InvalidArgument("max_draft_tokens", allowed)
        room = min(facts.max_positions, facts.kv_capacity_tokens) - claim.end + 1
        if room < 1:  # a draft with less room than the target has nothing to say any more
            return draft_pb2.ProposeResponse(
                round=request.round, block=draft_pb2.Block(), incarnation=facts.incarnation
            )
        program = Propose(opening.params, min(request.max_draft_tokens, room), facts.vocab_size)
        span = telemetry.tracer().start_span(
            telemetry.SPAN_PROPOSE_SERVER,
            context=telemetry.extract(request.traceparent),
            kind=SpanKind.SERVER,
            attributes={telemetry.SESSION_ID: opening.session_id, telemetry.PREFIX_LEN: claim.prefix_len},
        )
        with telemetry.ending(span):
            trace = span.get_span_context() if span.is_recording() else None
            outcome = await self._replica.batcher.run(opening.name, claim, program, trace, opening.stream)
            span.set_attributes(telemetry.outcome_attributes(outcome))
        return self._respond(request.round, outcome)

    def _respond(self, number: int, outcome: Outcome) -> draft_pb2.ProposeResponse:
        response = draft_pb2.ProposeResponse(
            round=number, incarnation=self._replica.facts.incarnation, timings=timings_to_pb(outcome.timings)
        )
        if isinstance(outcome.result, CacheMiss):
            response.cache_miss.CopyFrom(miss_to_pb(outcome.result))
        else:
            response.block.CopyFrom(draft_pb2.Block(tokens=outcome.result, cached_len=outcome.cached_len))
        return response

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
