"""Orchestrators as a client sees them, over real gRPC: what they answer is a rule, and how they fail is a script.

Each has its own way to cut an answer into deltas. With a common ``Journal`` they go on with each other's answers and
sessions.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from outrider.errors import InvalidArgument, OutriderError
from outrider.server import Server
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1 import orchestrator_pb2_grpc

NAME = pb.DESCRIPTOR.services_by_name["OrchestratorService"].full_name
HELD = 2
"""Characters that stay back until the answer ends."""


def tokens_of(seed: int, count: int, prompt: Sequence[int] = (1,)) -> list[int]:
    """The one right answer."""
    return [random.Random(f"{seed}/{list(prompt)}/{index}").randrange(1000) for index in range(count)]


def text_of(tokens: Sequence[int], count: int, whole: bool) -> str:
    """What is certain of the text after ``count`` tokens."""
    text = "".join(chr(97 + token % 26) for token in tokens[:count])
    return text if whole else text[: max(0, count - HELD)]


@dataclass(frozen=True, slots=True)
class Fault:
    """How a call goes. ``error``: instead of an answer, or ``after`` so many tokens (-1: before Started). One that is
    none of ours ends the call as a dying process does. ``hang``: stand still there instead."""

    after: int = -1
    error: OutriderError | None = None
    hang: bool = False
    wrong: bool = False
    completes: bool = False


Before = tuple[list[int], int]
"""Tokens of a session, and its complete turns."""


@dataclass(slots=True)
class Journal:
    """Answers by session, with the session before them, and sessions between turns."""

    answers: dict[str, tuple[pb.GenerateRequest, Before]] = field(default_factory=dict)
    sessions: dict[str, Before] = field(default_factory=dict)


class Orchestrator(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """Answers as ``faults`` say, one per call, then well. ``stranger``: it knows no session. ``frozen``: what hangs
    hangs until it is set."""

    def __init__(self, number: int, journal: Journal, journals: bool) -> None:
        self._journal = journal
        self._journals = journals
        self._sizes = random.Random(number)
        self._sessions = number * 1000
        self.stranger = False
        self.faults: list[Fault] = []
        self.requests: list[pb.GenerateRequest] = []
        self.metadata: list[dict[str, str]] = []
        self.left_s: list[float | None] = []
        self.looks = 0
        self.frozen = asyncio.Event()

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> AsyncIterator[pb.GenerateResponse]:
        copy = pb.GenerateRequest()
        copy.CopyFrom(request)
        self.requests.append(copy)
        self.metadata.append(dict(context.invocation_metadata() or ()))
        self.left_s.append(context.time_remaining())
        fault = self.faults.pop(0) if self.faults else Fault(after=1 << 30)
        if fault.after < 0 and not fault.completes:
            await self._fail(fault, context)
        session_id, asked, (before, turn), heard = self._take(request)
        prompt = [*before, *asked.token_ids.ids]
        tokens = tokens_of(asked.sampling.seed, asked.max_new_tokens, prompt)
        if fault.completes:
            self._remember(session_id, asked, prompt, tokens, turn + 1)
        if fault.after < 0:
            await self._fail(fault, context)
        if fault.wrong:
            tokens = [token + 1 for token in tokens]
        yield self._started(session_id, asked.sampling.seed, len(prompt), turn)
        async for response in self._deltas(tokens, heard, asked.logprobs, fault, context):
            yield response
        self._remember(session_id, asked, prompt, tokens, turn + 1)
        usage = pb.Usage(prompt_tokens=len(prompt), completion_tokens=len(tokens))
        yield pb.GenerateResponse(finished=pb.Finished(reason=pb.FINISH_REASON_LENGTH, usage=usage, turns=turn + 1))

    def _take(self, request: pb.GenerateRequest) -> tuple[str, pb.GenerateRequest, Before, int]:
        """Session, what was asked, the session before it, tokens that are known."""
        if request.HasField("resume_from"):
            if not self._journals:
                raise InvalidArgument("resume_from", "no journal")
            if request.session_id not in self._journal.answers:
                raise InvalidArgument("session_id", "unknown answer")
            asked, before = self._journal.answers[request.session_id]
            return request.session_id, asked, before, request.resume_from
        if request.session_id and (self.stranger or request.session_id not in self._journal.sessions):
            raise InvalidArgument("session_id", "unknown session")
        self._sessions += 1
        session_id = request.session_id or f"session-{self._sessions}"
        before = self._journal.sessions.get(session_id, ([], 0))
        if request.HasField("turn") and request.turn != before[1]:
            raise InvalidArgument("turn", f"the session has {before[1]} complete turns")
        if self._journals:
            self._journal.answers[session_id] = (request, before)
        return session_id, request, before, 0

    def _remember(
        self, session_id: str, asked: pb.GenerateRequest, prompt: list[int], tokens: list[int], turns: int
    ) -> None:
        if asked.keep_session:
            self._journal.sessions[session_id] = ([*prompt, *tokens], turns)

    def _started(self, session_id: str, seed: int, prompt_tokens: int, turn: int) -> pb.GenerateResponse:
        return pb.GenerateResponse(
            started=pb.Started(
                session_id=session_id, seed=seed, prompt_tokens=prompt_tokens, resumable=self._journals, turn=turn
            )
        )

    async def _deltas(
        self, tokens: list[int], heard: int, logprobs: bool, fault: Fault, context: Any
    ) -> AsyncIterator[pb.GenerateResponse]:
        done = heard
        while True:
            if done >= fault.after:
                await self._fail(fault, context)
            if done >= len(tokens):
                return
            size = min(self._sizes.randint(1, 5), len(tokens) - done, fault.after - done)
            text = text_of(tokens, done + size, done + size == len(tokens))[len(text_of(tokens, done, False)) :]
            fresh = tokens[done : done + size]
            done += size
            told = pb.Delta(text=text, token_ids=fresh, logprobs=[-token / 1000 for token in fresh] if logprobs else [])
            told.round.round = done
            yield pb.GenerateResponse(delta=told)

    async def _fail(self, fault: Fault, context: Any) -> None:
        if fault.hang:
            await self.frozen.wait()
        if fault.error is not None:
            raise fault.error
        await context.abort(grpc.StatusCode.UNKNOWN, "Stream removed")

    async def ListRequests(self, request: pb.ListRequestsRequest, context: Any) -> pb.ListRequestsResponse:
        return pb.ListRequestsResponse()

    async def GetTrace(self, request: pb.GetTraceRequest, context: Any) -> pb.GetTraceResponse:
        return pb.GetTraceResponse()

    async def GetInfo(self, request: pb.GetInfoRequest, context: Any) -> pb.GetInfoResponse:
        self.looks += 1
        if any(fault.hang for fault in self.faults):
            await self.frozen.wait()
        return pb.GetInfoResponse(protocol_version=1)


@dataclass(slots=True)
class Running:
    """Orchestrators that serve, and where."""

    servers: list[Server]
    all: list[Orchestrator]
    journal: Journal

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{server.port}" for server in self.servers]

    @property
    def calls(self) -> int:
        return sum(len(orchestrator.requests) for orchestrator in self.all)


@contextlib.asynccontextmanager
async def orchestrators(count: int = 2, journals: bool = True) -> AsyncIterator[Running]:
    journal = Journal()
    every = [Orchestrator(number, journal, journals) for number in range(count)]
    servers = [Server("127.0.0.1:0", [NAME], drain_s=0.0) for _ in every]
    for server, orchestrator in zip(servers, every, strict=True):
        orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(orchestrator, server.grpc_server)
        await server.start()
    try:
        yield Running(servers, every, journal)
    finally:
        for orchestrator in every:
            orchestrator.frozen.set()
        for server in servers:
            await server.drain()
