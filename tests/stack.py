"""A whole system in the test's event loop: draft, target and orchestrator as real servers on real sockets.

Replicas and orchestrators are built when a test first asks for them and shared by all later ones. ``Farm``
also knows what an idle system looks like, so that every test can show that it leaked nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from draft_service.service import NAME as DRAFT_NAME
from draft_service.service import DraftService
from orchestrator.config import OrchestratorConfig
from orchestrator.journal import Journal
from orchestrator.journal_store import JournalStore
from orchestrator.member import Member, State
from orchestrator.pools import Pools
from orchestrator.service import NAME as ORCHESTRATOR_NAME
from orchestrator.service import OrchestratorService
from orchestrator.tenants import Tenants
from outrider import semconv
from outrider.channel import CLIENT_OPTIONS
from outrider.inference.batcher import Batcher
from outrider.inference.engine import Engine
from outrider.inference.invariance import calibrate
from outrider.inference.model import ModelOptions, ModelRunner
from outrider.inference.program import Runner
from outrider.inference.replica import Replica, describe, engine_options, load_replica
from outrider.replica_config import ReplicaConfig
from outrider.server import Server
from outrider.tokenizer import Tokenizer
from outrider.v1 import common_pb2
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.draft_pb2_grpc import add_DraftServiceServicer_to_server
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub, add_OrchestratorServiceServicer_to_server
from outrider.v1.target_pb2_grpc import add_TargetServiceServicer_to_server
from target_service.service import NAME as TARGET_NAME
from target_service.service import TargetService
from tests.waiting import eventually

LOCAL = "127.0.0.1:0"
T = TypeVar("T")
Wrap = Callable[[ModelRunner], Runner]


async def load_wrapped(config: ReplicaConfig, wrap: Wrap) -> Replica:
    """Like ``load_replica``, with a wrapper around the runner."""
    made: list[Any] = []

    def build() -> Engine:
        runner = ModelRunner(ModelOptions(config.model, config.dtype, config.device, config.kv_bytes))
        made.append(describe(runner, Tokenizer.load(config.model), calibrate(runner), config))
        return Engine(wrap(runner), engine_options(config))

    batcher = Batcher()
    engine = await batcher.start(build)
    return Replica(made[0], engine, batcher)


@dataclass(slots=True)
class ReplicaServer:
    """A loaded replica behind its server. ``stop`` and ``restart`` are what an operator could do to it."""

    role: str
    config: ReplicaConfig
    replica: Replica
    server: Server
    wrap: Wrap | None = None

    @classmethod
    async def start(cls, role: str, config: ReplicaConfig, wrap: Wrap | None = None) -> "ReplicaServer":
        """Load and serve."""
        span = semconv.SPAN_DRAFT_FORWARD if role == "draft" else semconv.SPAN_TARGET_FORWARD
        replica = await load_wrapped(config, wrap) if wrap else await load_replica(config, span)
        server = Server(config.listen, [DRAFT_NAME if role == "draft" else TARGET_NAME], drain_s=0.0)
        if role == "draft":
            add_DraftServiceServicer_to_server(DraftService(replica), server.grpc_server)
        else:
            add_TargetServiceServicer_to_server(TargetService(replica), server.grpc_server)
        await server.start()
        await server.set_serving(True)
        return cls(role, config, replica, server, wrap)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    @property
    def sessions(self) -> int:
        return len(self.replica.engine.sessions)

    async def stop(self) -> None:
        """End every call and the engine at once."""
        await self.server.drain()
        await self.replica.close()

    async def restart(self) -> None:
        """A new process at the same address: same weights, new incarnation, empty cache."""
        await self.stop()
        config = ReplicaConfig(**{**_fields(self.config), "listen": self.address})
        fresh = await ReplicaServer.start(self.role, config, self.wrap)
        self.replica, self.server = fresh.replica, fresh.server

    async def evict(self) -> int:
        """Drop every idle session's cache, as pressure would; returns how many went."""
        sessions = self.replica.engine.sessions

        def drop() -> int:
            idle = [session.session_id for session in sessions if not session.busy]
            return sum(sessions.drop(session_id) for session_id in idle)

        return int(await self.replica.batcher.call(drop))

    async def check(self) -> None:
        """The block counts are exactly what the sessions hold (design I5)."""
        await self.replica.batcher.call(self.replica.engine.sessions.check_integrity)

    def idle(self, sessions: int = 0) -> bool:
        """Whether nothing runs and just so many sessions hold cache."""
        engine = self.replica.engine
        held = engine.pool.total - engine.pool.free
        return engine.idle and len(engine.sessions) == sessions and (held == 0 or sessions > 0)


def _fields(config: ReplicaConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in ReplicaConfig.__dataclass_fields__}


@dataclass(slots=True)
class Answer:
    """What a client saw of one answer."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[float] = field(default_factory=list)
    rounds: list[pb.RoundStats] = field(default_factory=list)
    started: pb.Started = field(default_factory=pb.Started)
    finished: pb.Finished = field(default_factory=pb.Finished)

    @property
    def session_id(self) -> str:
        return self.started.session_id

    @property
    def reason(self) -> str:
        return pb.FinishReason.Name(self.finished.reason).removeprefix("FINISH_REASON_")

    def read(self, event: pb.GenerateResponse) -> None:
        """Add one event."""
        which = event.WhichOneof("event")
        if which == "started":
            self.started = event.started
        elif which == "finished":
            self.finished = event.finished
        else:
            self.ids.extend(event.delta.token_ids)
            self.text += event.delta.text
            self.logprobs.extend(event.delta.logprobs)
            if event.delta.HasField("round"):
                self.rounds.append(event.delta.round)

    def check_books(self) -> None:
        """The counters agree with what was streamed (design I7)."""
        summary, usage = self.finished.speculation, self.finished.usage
        assert usage.completion_tokens == summary.emitted == len(self.ids)
        assert usage.prompt_tokens == self.started.prompt_tokens
        assert [stats.round for stats in self.rounds] == list(range(summary.rounds))
        assert summary.proposed == sum(len(stats.draft_tokens) for stats in self.rounds)
        assert summary.accepted == sum(stats.num_accepted for stats in self.rounds)
        assert all(stats.num_accepted <= len(stats.draft_tokens) for stats in self.rounds)

    def check_all_accepted(self) -> None:
        """A draft that is the target's twin is never wrong, in any single round."""
        for stats in self.rounds:
            assert stats.num_accepted == len(stats.draft_tokens), f"round {stats.round}: {stats}"


def speculation(k: int | None) -> pb.Speculation:
    """None is AUTO, 0 is OFF, anything else FIXED."""
    if k is None:
        return pb.Speculation(mode=pb.SPECULATION_MODE_AUTO)
    if k == 0:
        return pb.Speculation(mode=pb.SPECULATION_MODE_OFF)
    return pb.Speculation(mode=pb.SPECULATION_MODE_FIXED, draft_tokens=k)


def make_request(prompt: str | Sequence[int] | pb.Chat, k: int | None = 0, **fields: Any) -> pb.GenerateRequest:
    """A request; sampling fields may be given directly. Random models meet their end token by chance, so
    unless a test is about ends they are ignored."""
    sampling = {name: fields.pop(name) for name in ("temperature", "top_k", "top_p", "min_p", "seed") if name in fields}
    fields.setdefault("ignore_eos", True)
    fields.setdefault("max_new_tokens", 32)
    if isinstance(prompt, str):
        fields["prompt"] = prompt
    elif isinstance(prompt, pb.Chat):
        fields["chat"] = prompt
    else:
        fields["token_ids"] = pb.TokenIds(ids=prompt)
    return pb.GenerateRequest(sampling=common_pb2.SamplingParams(**sampling), speculation=speculation(k), **fields)


@dataclass(slots=True)
class Stack:
    """An orchestrator with its replicas, and a client of it. ``draft`` is None without one of our own."""

    target: ReplicaServer
    draft: ReplicaServer | None
    service: OrchestratorService
    server: Server
    pools: Pools
    tokenizer: Tokenizer
    channel: grpc.aio.Channel
    stub: Any

    async def stream(
        self, request: pb.GenerateRequest, within_s: float = 120.0
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        """Events of one answer; leaving the iteration cancels the call."""
        call = self.stub.Generate(request, timeout=within_s)
        try:
            async for event in call:
                yield event
        finally:
            call.cancel()

    async def ask(self, request: pb.GenerateRequest, within_s: float = 120.0) -> Answer:
        """A complete answer, its books checked."""
        answer = Answer()
        async with contextlib.aclosing(self.stream(request, within_s)) as events:
            async for event in events:
                answer.read(event)
        answer.check_books()
        return answer

    async def generate(self, prompt: str | Sequence[int] | pb.Chat, k: int | None = 0, **fields: Any) -> Answer:
        """Ask and wait for the whole answer. Without stop texts the joined text must be that of the ids."""
        answer = await self.ask(make_request(prompt, k, **fields))
        if not fields.get("stop") and answer.reason == "LENGTH":
            assert answer.text == self.tokenizer.decode(answer.ids)
        return answer

    async def fails(self, request: pb.GenerateRequest, within_s: float = 120.0) -> grpc.aio.AioRpcError:
        """The error that a request ends with."""
        try:
            await self.ask(request, within_s)
        except grpc.aio.AioRpcError as error:
            return error
        raise AssertionError("the request did not fail")

    @property
    def target_member(self) -> Member:
        """The first target as the orchestrator sees it."""
        return self.pools.targets.members[0]

    @property
    def draft_member(self) -> Member:
        """The first draft as the orchestrator sees it."""
        return self.pools.drafts.members[0]

    async def info(self) -> pb.GetInfoResponse:
        """What the orchestrator says of its pair."""
        response: pb.GetInfoResponse = await self.stub.GetInfo(pb.GetInfoRequest(), timeout=5)
        return response

    async def draft_is(self, state: State) -> None:
        """Wait until the orchestrator sees the draft in a state."""
        await eventually(lambda: self.draft_member.state is state, f"the draft is {state.value}")

    async def settled(self, sessions: int = 0) -> None:
        """Wait until no answer runs and the replicas hold just so many sessions; then check their blocks."""
        replicas = [replica for replica in (self.target, self.draft) if replica is not None]

        def at_base() -> bool:
            served = not self.service._door.inside and not self.service._releases
            return served and all(replica.idle(sessions) for replica in replicas)

        await eventually(at_base, f"sessions, blocks and requests are at base: {self.describe()}")
        for replica in replicas:
            await replica.check()

    def describe(self) -> str:
        """What is held now, for messages."""
        replicas = [replica for replica in (self.target, self.draft) if replica is not None]
        loads = [f"{replica.role} {replica.replica.engine.load()}" for replica in replicas]
        return f"{self.service._door.inside} active, {len(self.service._releases)} releases, {'; '.join(loads)}"

    async def close(self) -> None:
        """Stop the orchestrator and the client; the replicas live on."""
        await self.channel.close()
        await self.server.drain()
        await self.pools.close()


async def start_orchestrator(
    target: ReplicaServer,
    draft: ReplicaServer | None,
    draft_address: str | None = None,
    target_address: str | None = None,
    **settings: Any,
) -> Stack:
    """An orchestrator between two replicas, once it has found them; addresses are those of proxies before them."""
    address = draft_address if draft_address is not None else draft.address if draft else ""
    defaults: dict[str, Any] = {"tokenizer": target.config.model, "drain_s": 0.0, "draft_timeout_s": 30.0}
    settings = defaults | settings
    config = OrchestratorConfig(target=target_address or target.address, draft=address, listen=LOCAL, **settings)
    tokenizer = Tokenizer.load(config.tokenizer)
    pools = Pools(tokenizer, config.lease_s)
    tenants = Tenants.load(config.tenants) if config.tenants else Tenants.none()
    journal = Journal(JournalStore(config.journal) if config.journal else None, config.resume_s, config.session_ttl_s)
    service = OrchestratorService(config, pools, tokenizer, journal, tenants)
    server = Server(config.listen, [ORCHESTRATOR_NAME], config.max_streams, config.drain_s)
    add_OrchestratorServiceServicer_to_server(service, server.grpc_server)
    await server.start()
    await pools.set(config.targets, config.drafts)
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=CLIENT_OPTIONS)
    stack = Stack(target, draft, service, server, pools, tokenizer, channel, OrchestratorServiceStub(channel))
    await eventually(lambda: pools.targets.ready, "the target is ready")
    await server.set_serving(True)
    if draft is not None:
        await eventually(lambda: stack.draft_member.state is not State.UNAVAILABLE, "the draft was asked")
    return stack


@contextlib.asynccontextmanager
async def own_stack(
    target: ReplicaServer | Awaitable[ReplicaServer], draft: ReplicaServer | None = None, **settings: Any
) -> AsyncIterator[Stack]:
    """An orchestrator for one test; replicas that the test started itself are stopped with it."""
    owned = not isinstance(target, ReplicaServer)
    server = target if isinstance(target, ReplicaServer) else await target
    stack = await start_orchestrator(server, draft, **settings)
    try:
        yield stack
        await stack.settled()
    finally:
        await stack.close()
        if owned:
            await server.stop()


def _is_listener(task: asyncio.Task[Any]) -> bool:
    """Whether it is a server waiting for the next call of a method: gRPC has a new one after each call."""
    return getattr(task.get_coro(), "__qualname__", "").startswith("AioServer._request")


@dataclass(slots=True)
class Farm:
    """Builds replicas and stacks on first use and remembers them until the end of the session."""

    replicas: dict[tuple[Any, ...], ReplicaServer] = field(default_factory=dict)
    stacks: dict[tuple[Any, ...], Stack] = field(default_factory=dict)
    standing: set[asyncio.Task[Any]] = field(default_factory=set)

    async def standing_up(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something whose tasks are meant to stay, and remember them."""
        before = asyncio.all_tasks()
        result = await work
        self.standing |= asyncio.all_tasks() - before
        return result

    async def replica(self, role: str, model: Any, dtype: str = "float32", **settings: Any) -> ReplicaServer:
        """The shared replica of these settings."""
        key = (role, str(model), dtype, *sorted(settings.items()))
        if key not in self.replicas:
            defaults: dict[str, Any] = {"listen": LOCAL, "kv_bytes": 64 << 20, "threads": 1}
            config = ReplicaConfig(model=str(model), dtype=dtype, **(defaults | settings))
            self.replicas[key] = await self.standing_up(ReplicaServer.start(role, config))
        return self.replicas[key]

    async def stack(self, target: Any, draft: Any = None, dtype: str = "float32", **settings: Any) -> Stack:
        """The shared system of a target's and a draft's model folder, both with these settings."""
        key = (str(target), str(draft), dtype, *sorted(settings.items()))
        if key not in self.stacks:
            target_server = await self.replica("target", target, dtype, **settings)
            draft_server = await self.replica("draft", draft, dtype, **settings) if draft else None
            self.stacks[key] = await self.standing_up(start_orchestrator(target_server, draft_server))
        return self.stacks[key]

    async def check_base(self, before: set[asyncio.Task[Any]]) -> None:
        """Everything is as it was: no session, block, stream or task is left over."""
        for stack in self.stacks.values():
            await stack.settled()
        allowed = before | self.standing | {asyncio.current_task()}

        def extra() -> list[asyncio.Task[Any]]:
            return [task for task in asyncio.all_tasks() if task not in allowed and not _is_listener(task)]

        await eventually(lambda: not extra(), f"the tasks end: {extra()}")

    async def close(self) -> None:
        """Stop everything."""
        for stack in self.stacks.values():
            await stack.close()
        for replica in self.replicas.values():
            await replica.stop()
