"""OrchestratorService over gRPC: a checked request in, events out. It knows calls and conversations, not rounds."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from typing import Any

from opentelemetry.trace import Span, SpanKind

from orchestrator.assembly import Assembly
from orchestrator.config import OrchestratorConfig
from orchestrator.conversations import Conversation, Conversations
from orchestrator.pools import Pools
from orchestrator.prompting import next_messages
from orchestrator.replies import best, delta, finished, started, status
from orchestrator.request import Turn, read_turn
from orchestrator.session import Generation
from outrider import telemetry
from outrider.errors import Unavailable
from outrider.tokenizer import Tokenizer
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1 import orchestrator_pb2_grpc
from outrider.wire import PROTOCOL_VERSION, ReplicaFacts

NAME = pb.DESCRIPTOR.services_by_name["OrchestratorService"].full_name


class OrchestratorService(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """One handler call per answer."""

    def __init__(self, config: OrchestratorConfig, pools: Pools, tokenizer: Tokenizer) -> None:
        self._config = config
        self._pools = pools
        self._incarnation = secrets.randbits(64)
        self._releases: set[asyncio.Task[None]] = set()
        self._active = 0
        self._assembly = Assembly(config, pools, tokenizer, lambda: self._active)
        self.conversations = Conversations(config.session_ttl_s, config.max_sessions, self._release_soon)

    def _release_soon(self, conversation: Conversation) -> None:
        """Free a session's caches without making anybody wait."""
        places = (conversation.target_place.address, conversation.draft_place.address)
        task = asyncio.create_task(self._pools.release(conversation.session_id, conversation.tenant, *places))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def sweep(self, every_s: float = 1.0) -> None:
        """Drop expired conversations, for ever."""
        while True:
            await asyncio.sleep(every_s)
            self.conversations.expire()

    def _target_facts(self) -> ReplicaFacts:
        facts = self._pools.targets.facts
        if facts is None:
            raise Unavailable(f"no target: {self._pools.targets.reason}", retry_after_s=1.0)
        return facts

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
            prompt = await self._assembly.prompt(turn, conversation, facts)
            conversation.set_prompt(prompt)
            generation, links = self._assembly.generation(turn, conversation, facts, span, context.time_remaining())
            with contextlib.closing(links[0]), contextlib.closing(links[1]):
                yield started(conversation.session_id, turn, facts, self._pools.drafts, len(prompt))
                text: list[str] = []
                async with contextlib.aclosing(generation.rounds()) as rounds:
                    async for done in rounds:
                        event = delta(generation.answer, done)
                        text.append(event.delta.text)
                        yield event
                _describe(span, turn, facts, generation, len(prompt))
            self._remember(turn, conversation, "".join(text))
            before, keep = list(conversation.log.tokens), turn.keep_session
            yield finished(generation, len(prompt), links[1].crossed)
        finally:
            conversation.set_prompt(before)
            self.conversations.end(conversation, keep)

    def _remember(self, turn: Turn, conversation: Conversation, text: str) -> None:
        messages = next_messages(conversation, turn.input)
        if messages is not None:
            conversation.messages = [*messages, {"role": "assistant", "content": text}]

    async def GetInfo(self, request: pb.GetInfoRequest, context: Any) -> pb.GetInfoResponse:
        """The replicas as last seen."""
        return pb.GetInfoResponse(
            protocol_version=PROTOCOL_VERSION,
            incarnation=self._incarnation,
            target=best(self._pools.targets),
            draft=best(self._pools.drafts),
            targets=[status(member) for member in self._pools.targets.members],
            drafts=[status(member) for member in self._pools.drafts.members],
            sessions=len(self.conversations),
            active_requests=self._active,
            max_draft_tokens=self._config.max_draft_tokens,
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
