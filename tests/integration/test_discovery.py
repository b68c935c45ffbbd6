"""Processes that find each other through a real Redis; whatever happens to them, the text is the target's own."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc

from outrider.channel import CLIENT_OPTIONS
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub
from tests.integration.processes import READY_S, Service, free_address, running, serves
from tests.redis_server import RedisServer, redis_server
from tests.stack import make_request
from tests.waiting import eventually, until

TOKENS = 150
LEASE = {"OUTRIDER_LEASE_S": "1.5"}
PASSES = {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_SYNTHETIC_PASS_MS": "10", "OUTRIDER_KV_BYTES": "8MiB"}


@dataclass(slots=True)
class System:
    """Replicas that announce themselves, an orchestrator that was told of none, and a client."""

    redis: RedisServer
    model: str
    stub: Any
    stack: contextlib.AsyncExitStack

    async def start(self, module: str) -> Service:
        """One more replica, once it serves."""
        variables = {"OUTRIDER_MODEL": self.model, "OUTRIDER_REGISTRY": self.redis.url, **LEASE, **PASSES}
        service = await self.stack.enter_async_context(running(module, variables))
        await serves(service)
        return service

    async def known(self, role: str) -> dict[str, str]:
        """State of each replica by its address."""
        info = await self.stub.GetInfo(pb.GetInfoRequest(), timeout=5)
        return {s.address: pb.ReplicaState.Name(s.state) for s in (info.targets if role == "target" else info.drafts)}

    async def ready(self, role: str, services: Sequence[Service]) -> None:
        """Wait until just these are in use."""
        wanted = {service.address for service in services}

        async def just_these() -> bool:
            known = await self.known(role)
            return {address for address, state in known.items() if state == "REPLICA_STATE_READY"} == wanted

        await until(just_these, f"{role}s in use are {wanted}", READY_S)

    async def answer(self, seed: int, k: int | None = 4, under_way: Callable[[], object] = lambda: None) -> list[int]:
        """The ids of a whole answer; ``under_way`` hears when there are TOKENS // 3."""
        request = make_request([1 + seed, 2, 3], k, max_new_tokens=TOKENS, temperature=0.8, seed=seed)
        ids: list[int] = []
        async for event in self.stub.Generate(request, timeout=60):
            ids.extend(event.delta.token_ids)
            if len(ids) >= TOKENS // 3:
                under_way()
        assert len(ids) == TOKENS
        return ids


@contextlib.asynccontextmanager
async def system(model: str) -> AsyncIterator[System]:
    """Redis and an orchestrator."""
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server())
        variables = {"OUTRIDER_TOKENIZER": model, "OUTRIDER_REGISTRY": redis.url, "OUTRIDER_LISTEN": free_address()}
        orchestrator = await stack.enter_async_context(running("orchestrator", variables | LEASE))
        channel = grpc.aio.insecure_channel(orchestrator.address, options=CLIENT_OPTIONS)
        await stack.enter_async_context(channel)
        made = System(redis, model, OrchestratorServiceStub(channel), stack)
        yield made


async def test_replicas_are_found_lost_stopped_and_replaced_and_no_token_changes(llama: Any) -> None:
    """kill -9, SIGSTOP and SIGTERM of targets and drafts, and a Redis that is frozen and emptied, under load."""
    async with system(str(llama)) as made:
        first, draft = await asyncio.gather(made.start("target_service"), made.start("draft_service"))
        await made.ready("target", [first])
        await made.ready("draft", [draft])
        alone = {seed: await made.answer(seed, 0) for seed in range(4)}

        async def same(begun: set[int]) -> None:
            """``begun`` gets the answers that are in their middle."""
            got = await asyncio.gather(*(made.answer(seed, under_way=partial(begun.add, seed)) for seed in alone))
            assert dict(enumerate(got)) == alone

        async def during(event: Any) -> None:
            """Something happens in the middle of four answers."""
            begun: set[int] = set()
            asking = asyncio.create_task(same(begun))
            await eventually(lambda: begun == set(alone), "all answers are in their middle")
            assert not asking.done()
            await event()
            await asking

        second, other_draft = await asyncio.gather(made.start("target_service"), made.start("draft_service"))
        await made.ready("target", [first, second])
        await made.ready("draft", [draft, other_draft])
        await same(set())

        async def kill() -> None:
            first.process.kill()
            draft.process.kill()

        await during(kill)
        await made.ready("target", [second])
        await made.ready("draft", [other_draft])
        assert first.address not in await made.known("target"), "its lease has run out"

        third = await made.start("target_service")
        await made.ready("target", [second, third])

        async def stop() -> None:
            second.process.send_signal(signal.SIGSTOP)

        await during(stop)
        await made.ready("target", [third])
        second.process.send_signal(signal.SIGCONT)
        await made.ready("target", [second, third])

        async def freeze() -> None:
            await made.redis.freeze()

        await during(freeze)
        await same(set())
        made.redis.thaw()

        async def forget() -> None:
            async with made.redis.client() as client:
                await client.flushall()

        await during(forget)

        async def terminate() -> None:
            await third.terminate()

        await during(terminate)
        code, log = await third.ended()
        assert code == 0, log
        await made.ready("target", [second])
        await same(set())
