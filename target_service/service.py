"""TargetService over gRPC: protobuf in, protobuf out. It knows messages and streams, not models."""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from opentelemetry.trace import Span

from outrider import semconv, telemetry
from outrider.choice import Verdict
from outrider.errors import InvalidArgument
from outrider.inference.batcher import Asked
from outrider.inference.job import Outcome
from outrider.inference.replica import Replica
from outrider.inference.rounds import Opening, in_order, read_claim, read_release
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import common_pb2, target_pb2, target_pb2_grpc
from outrider.wire import ReplicaFacts, check_tokens, facts_to_pb, load_to_pb, miss_to_pb, timings_to_pb
from target_service.round_spans import RoundSpans
from target_service.verifier import MAX_RUN, Verify

_LAST_ROUND = 2**32 - 1
NAME = target_pb2.DESCRIPTOR.services_by_name["TargetService"].full_name


def _read(opening: Opening, request: target_pb2.VerifyRequest, facts: ReplicaFacts) -> tuple[Claim, Verify]:
    """What a message asks for. Raises InvalidArgument."""
    claim = read_claim(request, opening, facts.vocab_size)
    block = check_tokens("draft_tokens", request.draft_tokens, facts.vocab_size)
    if len(block) > facts.max_draft_tokens:
        raise InvalidArgument("draft_tokens", f"at most {facts.max_draft_tokens} tokens, got {len(block)}")
    most = 0 if block else MAX_RUN
    if request.run > most:
        words = "without draft tokens" if not block else "in a round with draft tokens"
        raise InvalidArgument("run", f"must be 0 to {most} {words}, got {request.run}")
    if request.round + request.run > _LAST_ROUND:
        raise InvalidArgument("run", f"must not lead beyond round {_LAST_ROUND}, got {request.run} in {request.round}")
    return claim, Verify(opening.params, block, facts.vocab_size, request.logprobs, request.run)


def _gives_way(request: target_pb2.VerifyRequest) -> bool:
    """Whether what is left of a message's answers is not wanted any more when the next one comes."""
    return request.run > 0


def _spans(opening: Opening, request: target_pb2.VerifyRequest, claim: Claim) -> Callable[[int], Span]:
    """What begins the span of each round of a message. No message names a span that rounds of a run belong to, so they
    are children of its caller too; their number tells them apart."""

    def begin(index: int) -> Span:
        attributes: dict[str, int | str] = {
            semconv.SESSION_ID: opening.session_id,
            semconv.RPC_SYSTEM: "grpc",
            semconv.RPC_METHOD: f"{NAME}/Verify",
            semconv.ROUND: request.round + index,
            semconv.RUN_FIRST: request.round,
            semconv.PREFIX_LEN: claim.end + index - 1 if index else claim.prefix_len,
        }
        return telemetry.serving(request.traceparent, semconv.SPAN_VERIFY_SERVER, attributes)

    return begin


class TargetService(target_pb2_grpc.TargetServiceServicer):
    """One handler call per session's stream."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def Verify(self, requests: Any, context: Any) -> AsyncIterator[target_pb2.VerifyResponse]:
        """Answer each round of a stream in order; a run gives way to the next message."""
        async for response in in_order(requests, self._replica.batcher, self._rounds, _gives_way):
            yield response

    async def _rounds(
        self, opening: Opening, request: target_pb2.VerifyRequest
    ) -> AsyncGenerator[target_pb2.VerifyResponse, None]:
        """The answer to a message, and those of its run."""
        claim, program = _read(opening, request, self._replica.facts)
        with RoundSpans(_spans(opening, request, claim)).ending() as spans:
            outcomes = self._replica.batcher.outcomes(Asked(opening.name, claim, program, spans.trace, opening.stream))
            async with contextlib.aclosing(outcomes):
                number = request.round
                async for outcome in outcomes:
                    spans.answered(outcome)
                    self._replica.meters.answered(outcome)
                    yield self._respond(number, outcome)
                    number += 1

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
        facts = dataclasses.replace(self._replica.current_facts(), max_run=MAX_RUN)
        return target_pb2.TargetServiceGetReplicaInfoResponse(info=facts_to_pb(facts))
