"""OrchestratorService over gRPC: a checked request in, events out. Protobuf stops here."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from typing import Any

from opentelemetry.trace import Span, SpanKind

from orchestrator.answer import Answer, Ending, FinishReason
from orchestrator.config import OrchestratorConfig
from orchestrator.conversations import Conversation, Conversations
from orchestrator.drafting import Drafting
from orchestrator.estimates import PoolEstimates
from orchestrator.links import DraftLink, TargetLink
from orchestrator.plans import Drafter
from orchestrator.pools import Member, Pools, State
from orchestrator.prompting import next_messages, prompt_tokens
from orchestrator.request import Turn, read_turn
from orchestrator.round_stream import StreamOptions
from orchestrator.session import Generation, Limits
from orchestrator.speculation import Controller, Mode
from orchestrator.totals import Round
from outrider import telemetry
from outrider.errors import InvalidArgument, Unavailable
from outrider.tokenizer import Tokenizer
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1 import orchestrator_pb2_grpc
from outrider.wire import PROTOCOL_VERSION, ReplicaFacts, facts_to_pb

NAME = pb.DESCRIPTOR.services_by_name["OrchestratorService"].full_name
_REASONS = {FinishReason.STOP: pb.FINISH_REASON_STOP, FinishReason.LENGTH: pb.FINISH_REASON_LENGTH}
_DRAFTERS = {
    Drafter.NONE: pb.DRAFTER_UNSPECIFIED,
    Drafter.MODEL: pb.DRAFTER_MODEL,
    Drafter.NGRAM: pb.DRAFTER_NGRAM,
}
_RUN = 16
"""Plain rounds asked for at once. More would save little, and cost more when an answer ends early."""
_STATES = {
    State.READY: pb.REPLICA_STATE_READY,
    State.UNAVAILABLE: pb.REPLICA_STATE_UNAVAILABLE,
    State.REFUSED: pb.REPLICA_STATE_REFUSED,
    State.ABSENT: pb.REPLICA_STATE_ABSENT,
}


def _delta(answer: Answer, done: Round) -> pb.GenerateResponse:
    stats = pb.RoundStats(
        round=done.number,
        draft_tokens=done.block,
        num_accepted=done.num_accepted,
        propose_us=done.propose_us,
        verify_us=done.verify_us,
        drafter=_DRAFTERS[done.drafter],
        prepared=done.prepared,
    )
    delta = pb.Delta(text=answer.take_text(), token_ids=done.emitted, logprobs=done.logprobs, round=stats)
    return pb.GenerateResponse(delta=delta)


def _finished(generation: Generation, prompt_length: int) -> pb.GenerateResponse:
    totals, answer = generation.totals, generation.answer
    assert answer.finished is not None
    return pb.GenerateResponse(
        finished=pb.Finished(
            reason=_REASONS[answer.finished],
            usage=pb.Usage(
                prompt_tokens=prompt_length,
                completion_tokens=len(answer.tokens),
                cached_prompt_tokens=totals.cached_prompt_tokens,
            ),
            speculation=pb.SpeculationSummary(
                rounds=totals.rounds,
                proposed=totals.proposed,
                accepted=totals.accepted,
                emitted=totals.emitted,
                draft_faults=totals.draft_faults,
                copied=totals.copied,
                look_aheads=totals.look_aheads,
                look_ahead_hits=totals.hits,
            ),
        )
    )


class OrchestratorService(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """One handler call per answer."""

    def __init__(self, config: OrchestratorConfig, pools: Pools, tokenizer: Tokenizer) -> None:
        self._config = config
        self._pools = pools
        self._tokenizer = tokenizer
        self._incarnation = secrets.randbits(64)
        self._releases: set[asyncio.Task[None]] = set()
        self._active = 0
        self._estimates = PoolEstimates()
        self.conversations = Conversations(config.session_ttl_s, config.max_sessions, self._release_soon)

    def _release_soon(self, conversation: Conversation) -> None:
        """Free a session's caches without making anybody wait."""
        task = asyncio.create_task(self._pools.release(conversation.session_id, conversation.tenant))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def sweep(self, every_s: float = 1.0) -> None:
        """Drop expired conversations, for ever."""
        while True:
            await asyncio.sleep(every_s)
            self.conversations.expire()

    def _target_facts(self) -> ReplicaFacts:
        member = self._pools.target
        if member.facts is None or member.state is State.REFUSED:
            raise Unavailable(f"target {member.address}: {member.reason}", retry_after_s=1.0)
        return member.facts

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> AsyncGenerator[pb.GenerateResponse, None]:
        """Started, the rounds as deltas, Finished."""
        facts = self._target_facts()
        turn = read_turn(request, self._config, facts.vocab_size, facts.max_draft_tokens)
        span = telemetry.tracer().start_span(
            telemetry.SPAN_GENERATE,
            context=telemetry.from_metadata(context.invocation_metadata()),
            kind=SpanKind.SERVER,
        )
        self._active += 1
        try:
            with telemetry.ending(span):
                conversation = self.conversations.begin(turn.session_id, turn.tenant)
                span.set_attribute(telemetry.SESSION_ID, conversation.session_id)
                async with contextlib.aclosing(self._converse(turn, conversation, facts, span, context)) as events:
                    async for event in events:
                        yield event
        finally:
            self._active -= 1

    async def _converse(
        self, turn: Turn, conversation: Conversation, facts: ReplicaFacts, span: Span, context: Any
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        """One turn of a conversation. A turn that does not complete leaves the conversation as it was."""
        before, keep = list(conversation.log.tokens), bool(turn.session_id)
        try:
            prompt = await self._fitting_prompt(turn, conversation, facts)
            conversation.set_prompt(prompt)
            generation, links = self._prepare(turn, conversation, facts, span, context.time_remaining())
            with contextlib.closing(links[0]), contextlib.closing(links[1]):
                yield self._started(turn, conversation, facts, len(prompt))
                text: list[str] = []
                async with contextlib.aclosing(generation.rounds()) as rounds:
                    async for done in rounds:
                        event = _delta(generation.answer, done)
                        text.append(event.delta.text)
                        yield event
                _describe(span, turn, facts, generation, len(prompt))
            self._remember(turn, conversation, "".join(text))
            before, keep = list(conversation.log.tokens), turn.keep_session
            yield _finished(generation, len(prompt))
        finally:
            conversation.set_prompt(before)
            self.conversations.end(conversation, keep)

    async def _fitting_prompt(self, turn: Turn, conversation: Conversation, facts: ReplicaFacts) -> list[int]:
        """The turn's prompt, tokenized beside the event loop: a long text takes longer than other rounds can wait."""
        prompt = await asyncio.to_thread(prompt_tokens, conversation, turn.input, self._tokenizer)
        most = min(facts.max_positions, facts.kv_capacity_tokens)
        if len(prompt) >= most:
            limits = f"{facts.max_positions} positions and a KV cache of {facts.kv_capacity_tokens} tokens"
            words = f"has {len(prompt)} tokens with its history, at most {most - 1} fit beside one token of an answer"
            raise InvalidArgument(turn.input.field, f"{words} (the target has {limits})")
        return prompt

    def _prepare(
        self, turn: Turn, conversation: Conversation, facts: ReplicaFacts, span: Span, deadline_s: float | None
    ) -> tuple[Generation, tuple[DraftLink, TargetLink]]:
        config = self._config
        room = min(facts.max_positions, facts.kv_capacity_tokens) - len(conversation.log)
        end_ids = frozenset(turn.stop_token_ids) | (frozenset() if turn.ignore_eos else frozenset(facts.eos_token_ids))
        answer = Answer(Ending(min(turn.max_new_tokens, room), end_ids, turn.stops), self._tokenizer.decode)
        session_id = conversation.session_id
        draft_options = StreamOptions(session_id, turn.params, deadline_s, config.draft_timeout_s, tenant=turn.tenant)
        draft = DraftLink(self._pools.draft, draft_options, facts.vocab_size)
        options = StreamOptions(
            session_id, turn.params, deadline_s, config.verify_timeout_s, turn.logprobs, turn.tenant
        )
        target = TargetLink(self._pools.target, options, config.target_patience_s)
        generation = Generation(
            log=conversation.log,
            answer=answer,
            policy=Controller(turn.speculation, self._estimates, max(0, min(_RUN, facts.max_run + 1) - 1)),
            limits=self._limits(turn, facts),
            drafting=Drafting(conversation.log, draft, conversation.draft_view),
            target=target,
            target_view=conversation.target_view,
            span=span,
        )
        return generation, (draft, target)

    def _limits(self, turn: Turn, facts: ReplicaFacts) -> Limits:
        """What bounds the speculation of an answer."""
        most = 0 if turn.speculation.mode is Mode.OFF else min(self._config.max_draft_tokens, facts.max_draft_tokens)
        expected = self._pools.draft.state is not State.ABSENT
        return Limits(most, expected, lambda: self._active, self._config.look_ahead)

    def _started(
        self, turn: Turn, conversation: Conversation, facts: ReplicaFacts, prompt_length: int
    ) -> pb.GenerateResponse:
        draft = self._pools.draft
        return pb.GenerateResponse(
            started=pb.Started(
                session_id=conversation.session_id,
                seed=turn.params.seed,
                target_model=facts.model_id,
                draft_model=draft.facts.model_id if draft.facts and draft.state is State.READY else "",
                prompt_tokens=prompt_length,
            )
        )

    def _remember(self, turn: Turn, conversation: Conversation, text: str) -> None:
        messages = next_messages(conversation, turn.input)
        if messages is not None:
            conversation.messages = [*messages, {"role": "assistant", "content": text}]

    async def GetInfo(self, request: pb.GetInfoRequest, context: Any) -> pb.GetInfoResponse:
        """The pair as last seen."""
        return pb.GetInfoResponse(
            protocol_version=PROTOCOL_VERSION,
            incarnation=self._incarnation,
            target=_status(self._pools.target),
            draft=_status(self._pools.draft),
            sessions=len(self.conversations),
            active_requests=self._active,
            max_draft_tokens=self._config.max_draft_tokens,
        )


def _status(member: Member) -> pb.ReplicaStatus:
    return pb.ReplicaStatus(
        address=member.address,
        state=_STATES[member.state],
        reason=member.reason,
        info=facts_to_pb(member.facts) if member.facts else None,
    )


def _describe(span: Span, turn: Turn, facts: ReplicaFacts, generation: Generation, prompt_length: int) -> None:
    totals = generation.totals
    finished = generation.answer.finished
    span.set_attributes(
        {
            telemetry.OPERATION: "text_completion",
            telemetry.REQUEST_MODEL: facts.model_id,
            telemetry.REQUEST_TEMPERATURE: turn.params.temperature,
            telemetry.REQUEST_SEED: str(turn.params.seed),
            telemetry.REQUEST_MAX_TOKENS: turn.max_new_tokens,
            telemetry.INPUT_TOKENS: prompt_length,
            telemetry.OUTPUT_TOKENS: totals.emitted,
            telemetry.FINISH_REASONS: [finished.value if finished else ""],
            telemetry.REQUEST_ROUNDS: totals.rounds,
            telemetry.REQUEST_PROPOSED: totals.proposed,
            telemetry.REQUEST_ACCEPTED: totals.accepted,
        }
    )
