"""TargetService over gRPC: protobuf in, protobuf out. It knows messages and streams, not models."""

from collections.abc import AsyncIterator
from typing import Any

from opentelemetry.trace import SpanKind

from outrider import telemetry
from outrider.choice import Verdict
from outrider.errors import InvalidArgument
from outrider.inference.job import Outcome
from outrider.inference.replica import Replica
from outrider.inference.rounds import Opening, in_order, read_claim, read_release
from outrider.tokens import CacheMiss
from outrider.v1 import common_pb2, target_pb2, target_pb2_grpc
from outrider.wire import check_tokens, facts_to_pb, load_to_pb, miss_to_pb, timings_to_pb
from target_service.verifier import Verify

NAME = target_pb2.DESCRIPTOR.services_by_name["TargetService"].full_name


class TargetService(target_pb2_grpc.TargetServiceServicer):
    """One handler call per session's stream."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def Verify(self, requests: Any, context: Any) -> AsyncIterator[target_pb2.VerifyResponse]:
        """Answer each round of a stream in order."""
        async for response in in_order(requests, self._replica.batcher, self._round):
            yield response

    async def _round(self, opening: Opening, request: target_pb2.VerifyRequest) -> target_pb2.VerifyResponse:
        facts = self._replica.facts
        claim = read_claim(request, opening, facts.vocab_size)
        block = check_tokens("draft_tokens", request.draft_tokens, facts.vocab_size)
        if len(block) > facts.max_draft_tokens:
            raise InvalidArgument("draft_tokens", f"at most {facts.max_draft_tokens} tokens, got {len(block)}")
        program = Verify(opening.params, block, facts.vocab_size, request.logprobs)
        span = telemetry.tracer().start_span(
            telemetry.SPAN_VERIFY_SERVER,
            context=telemetry.extract(request.traceparent),
            kind=SpanKind.SERVER,
            attributes={telemetry.SESSION_ID: opening.session_id, telemetry.PREFIX_LEN: claim.prefix_len},
        )
        with telemetry.ending(span):
            trace = span.get_span_context() if span.is_recording() else None
            outcome = await self._replica.batcher.run(opening.name, claim, program, trace, opening.stream)
            span.set_attributes(telemetry.outcome_attributes(outcome))
        return self._respond(request.round, outcome)

    def _respond(self, number: int, outcome: Outcome) -> target_pb2.VerifyResponse:
        response = target_pb2.VerifyResponse(
            round=number,
            incarnation=self._replica.facts.incarnation,
            timings=timings_to_pb(outcome.timings),
            load=load_to_pb(self._replica.engine.load()),
        )
        if isinstance(outcome.result, CacheMiss):
            response.cache_miss.CopyFrom(miss_to_pb(outcome.result))
            return response
        verdict: Verdict = outcome.result
        response.verdict.CopyFrom(
            target_pb2.Verdict(
                num_accepted=verdict.num_accepted,
                next_token=verdict.next_token,
                token_logprobs=verdict.logprobs,
                cached_len=outcome.cached_len,
            )
        )
        return response

    async def Release(
        self, request: target_pb2.TargetServiceReleaseRequest, context: Any
    ) -> target_pb2.TargetServiceReleaseResponse:
        """Free a session's cache."""
        released = await self._replica.batcher.release(read_release(request.release))
        return target_pb2.TargetServiceReleaseResponse(release=common_pb2.ReleaseResponse(released=released))

    async def GetReplicaInfo(
        self, request: target_pb2.TargetServiceGetReplicaInfoRequest, context: Any
    ) -> target_pb2.TargetServiceGetReplicaInfoResponse:
        """The handshake."""
        return target_pb2.TargetServiceGetReplicaInfoResponse(info=facts_to_pb(self._replica.current_facts()))
