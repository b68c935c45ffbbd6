"""OrchestratorService over gRPC: a checked request in, events out. It knows calls and conversations, not rounds."""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import AsyncGenerator
from typing import Any

from orchestrator.assembly import Assembly
from orchestrator.config import OrchestratorConfig
from orchestrator.conversations import Conversation, Conversations
from orchestrator.describing import describe_request, describing_answer, outcome_of
from orchestrator.door import Door
from orchestrator.entry import Entry
from orchestrator.journal import Journal, JournalState
from orchestrator.looking import Looking
from orchestrator.observer import Observer, Seen, SlowRule
from orchestrator.pools import Pools
from orchestrator.prompting import next_messages
from orchestrator.readers import Readers
from orchestrator.reception import Reception, Taken
from orchestrator.recital import Recital
from orchestrator.recorder import Keeping, Recorder
from orchestrator.replies import delta, finished, started
from orchestrator.request import Turn
from orchestrator.session import Generation
from orchestrator.tenants import Tenants
from outrider import telemetry
from outrider.errors import SessionBusy, Unavailable
from outrider.tokenizer import Tokenizer
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1 import orchestrator_pb2_grpc
from outrider.wire import ReplicaFacts

NAME = pb.DESCRIPTOR.services_by_name["OrchestratorService"].full_name


class OrchestratorService(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """One handler call per answer."""

    def __init__(
        self, config: OrchestratorConfig, pools: Pools, tokenizer: Tokenizer, journal: Journal, tenants: Tenants
    ) -> None:
        self._config = config
        self._pools = pools
        self._journal = journal
        self._incarnation = secrets.randbits(64)
        self._releases: set[asyncio.Task[None]] = set()
        self._tenants = tenants
        meters = pools.meters
        self._door = Door(
            tenants.limits_of, config.max_answers, config.max_waiting, config.admission_s,
            lambda reason: meters.refusals.add(1, reason),
        )  # fmt: skip
        recorder = Recorder(Keeping(config.recent_requests, config.recent_spans))
        self._observer = Observer(meters, recorder, SlowRule(config.trace_slow_first_s, config.trace_slow_token_s))
        self._leave_at = math.inf
        self._readers = Readers(config.client_stall_s)
        self._assembly = Assembly(config, pools, tokenizer, lambda: self._door.inside)
        self.conversations = Conversations(config.session_ttl_s, config.max_sessions, self._release_soon)
        self._reception = Reception(config, self.conversations, journal)
        self.looking = Looking(config, pools, tokenizer, journal, self._door, self.conversations, recorder)

    def _release_soon(self, conversation: Conversation) -> None:
        """Free a session's caches without making anybody wait."""
        places = (conversation.target_place.address, conversation.draft_place.address)
        task = asyncio.create_task(self._pools.release(conversation.cache_id, conversation.tenant, *places))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def sweep(self, every_s: float = 1.0) -> None:
        """Drop expired conversations, clients that do not read and tenants that are gone, for ever."""
        while True:
            await asyncio.sleep(every_s)
            self.conversations.expire()
            self._readers.give_up()
            self._door.forget()

    def close(self) -> None:
        """Return when all that was seen has left."""
        self._observer.recorder.close()

    def leave(self, in_s: float) -> None:
        """Answers that have not ended by then are given up, for others to go on with."""
        self._leave_at = time.monotonic() + in_s

    def _target_facts(self) -> ReplicaFacts:
        facts = self._pools.targets.facts
        if facts is None:
            raise Unavailable(f"no target: {self._pools.targets.reason}", retry_after_s=1.0)
        return facts

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> AsyncGenerator[pb.GenerateResponse, None]:
        """Started, the rounds as deltas, Finished."""
        with self._observer.request(telemetry.from_metadata(context.invocation_metadata())) as seen:
            tenant = self._tenants.tenant_of(_authorization(context), request.tenant)
            seen.belongs_to(tenant)
            async with contextlib.AsyncExitStack() as place:
                with seen.waiting():
                    await place.enter_async_context(self._door.admitted(tenant, context.time_remaining()))
                facts = self._target_facts()
                taken = await self._reception.take(request, tenant, facts)
                seen.answers(taken.conversation.session_id)
                async with contextlib.aclosing(self._converse(taken, facts, seen, context)) as events:
                    async for event in events:
                        tokens = len(event.delta.token_ids)
                        self._door.spent(tenant, tokens)
                        seen.told(tokens)
                        with self._readers.handing():
                            yield event

    async def _converse(
        self, taken: Taken, facts: ReplicaFacts, seen: Seen, context: Any
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        """One turn of a conversation. A turn that does not complete leaves the conversation as it was."""
        turn, conversation, entry = taken.turn, taken.conversation, taken.entry
        before, keep = list(conversation.log.tokens), conversation.turns > 0
        try:
            with seen.prompting():
                prompt = await self._assembly.prompt(turn, conversation, facts)
            conversation.set_prompt(prompt)
            describe_request(seen, turn, facts, len(prompt))
            left_s = context.time_remaining()
            generation, links = self._assembly.generation(
                turn, conversation, facts, seen.span, left_s, taken.given, entry.numerics
            )
            with contextlib.closing(links[0]), contextlib.closing(links[1]):
                resumable = self._journal.state is JournalState.READY
                yield started(conversation, turn, facts, self._pools.drafts, len(prompt), resumable)
                recital = Recital(generation.answer, taken.heard)
                with describing_answer(seen, generation):
                    async with contextlib.aclosing(self._told(generation, recital, entry)) as deltas:
                        async for event in deltas:
                            entry.numerics = links[1].numerics
                            yield event
            self._remember(turn, conversation, recital.text)
            keep, before = turn.keep_session, list(conversation.log.tokens)
            await self._journalled(entry, conversation, facts, keep)
            seen.outcome = outcome_of(generation)
            yield finished(generation, len(prompt), conversation.turns, links[1].crossed)
        finally:
            conversation.set_prompt(before)
            if not entry.ended:
                self._journal.end(entry, None, last=False)
            if entry.pointless:
                conversation.owner = entry.former
            self.conversations.end(conversation, keep)

    async def _journalled(self, entry: Entry, conversation: Conversation, facts: ReplicaFacts, keep: bool) -> None:
        """An answer is complete. A session that is kept is safe when its client hears so, if the journal answers."""
        self._journal.end(entry, conversation.history(facts.tokenizer_fingerprint) if keep else None, last=not keep)
        if keep:
            await self._journal.secure()

    async def _told(
        self, generation: Generation, recital: Recital, entry: Entry
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        """The rounds of an answer, journalled, as far as the client has not heard them."""
        async with contextlib.aclosing(generation.rounds()) as rounds:
            async for done in rounds:
                entry.commit(done.emitted)
                self._pools.meters.round(done)
                part = recital.part(done)
                self._refuse_to_go_on(entry)
                if part is not None:
                    yield delta(part, done)
        recital.finish()

    def _refuse_to_go_on(self, entry: Entry) -> None:
        """Raises SessionBusy when another call makes this answer now, Unavailable when this orchestrator leaves."""
        if entry.superseded:
            raise SessionBusy("the answer was resumed by another request")
        if time.monotonic() >= self._leave_at:
            raise Unavailable("this orchestrator drains; another one can go on with the answer")

    def _remember(self, turn: Turn, conversation: Conversation, text: str) -> None:
        conversation.turns += 1
        messages = next_messages(conversation, turn.input)
        if messages is not None:
            conversation.messages = [*messages, {"role": "assistant", "content": text}]

    async def GetInfo(self, request: pb.GetInfoRequest, context: Any) -> pb.GetInfoResponse:
        """The replicas as last seen. Raises Unauthenticated."""
        self._tenants.tenant_of(_authorization(context), "")
        return self.looking.info(self._incarnation)

    async def ListRequests(self, request: pb.ListRequestsRequest, context: Any) -> pb.ListRequestsResponse:
        """The last requests of the caller's tenant. Raises Unauthenticated."""
        return self.looking.requests(self._tenants.tenant_of(_authorization(context), request.tenant))

    async def GetTrace(self, request: pb.GetTraceRequest, context: Any) -> pb.GetTraceResponse:
        """The spans of one of them. Raises Unauthenticated and InvalidArgument."""
        return await self.looking.trace(self._tenants.tenant_of(_authorization(context), request.tenant), request.id)


def _authorization(context: Any) -> str:
    return str(dict(context.invocation_metadata() or ()).get("authorization", ""))
