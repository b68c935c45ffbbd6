"""The system: two drafts, two targets, two orchestrators and a Redis, each behind a proxy, and what they say.

Questions about its state go past the proxies. It does not know faults or load.
"""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from bench.proxy import Proxy
from orchestrator.clients import draft_facts, target_facts
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub
from outrider.wire import ReplicaFacts
from tests.chaos.box import Box
from tests.chaos.schedule import Place
from tests.redis_server import RedisServer, redis_server
from tests.tiny import build_model
from tests.waiting import until

LEASE_S = 2.0
KEPT_S = 20.0
"""Of sessions that nobody goes on with, of answers that nobody resumes, of caches that nobody releases."""
KV_BYTES, SMALL_KV_BYTES = "32MiB", "640KiB"
READY_S = 120.0

_MODEL = {
    "OUTRIDER_DTYPE": "float32",
    "OUTRIDER_THREADS": "1",
    "OUTRIDER_COMPILE": "off",
    "OUTRIDER_KV_BYTES": KV_BYTES,
    "OUTRIDER_DRAIN_S": "5",
}
_ORCHESTRATOR = {"OUTRIDER_RESUME_S": str(KEPT_S), "OUTRIDER_DRAIN_S": "1", "OUTRIDER_DRAFT_TIMEOUT_S": "1"}


def free_address() -> str:
    """An address that nobody listens on, and that no outgoing connection will take while its process is away: below
    the ports that Linux gives to those."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"


class RedisBox:
    """A Redis that can be replaced by an empty one at the same address."""

    def __init__(self, address: str, proxy: Proxy) -> None:
        self.address = address
        self.proxy = proxy
        self.server: RedisServer
        self._stack = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        """As the services know it."""
        return f"redis://{self.proxy.address}/0"

    async def start(self) -> None:
        """With nothing in it."""
        self.server = await self._stack.enter_async_context(redis_server(self.address))

    async def stop(self) -> None:
        """At once."""
        await self._stack.aclose()


@dataclass(slots=True)
class System:
    """All of it. ``channels`` are those past the proxies."""

    redis: RedisBox
    boxes: dict[Place, Box]
    channels: dict[Place, grpc.aio.Channel]

    def proxy(self, place: Place) -> Proxy:
        return self.redis.proxy if place.role == "redis" else self.boxes[place].proxy

    def of(self, role: str) -> list[Place]:
        return [place for place in self.boxes if place.role == role]

    @property
    def addresses(self) -> list[str]:
        """Of the orchestrators, as clients know them."""
        return [self.boxes[place].proxy.address for place in self.of("orchestrator")]

    async def info(self, place: Place) -> pb.GetInfoResponse | None:
        """What an orchestrator says; None when it says nothing."""
        stub: Any = OrchestratorServiceStub(self.channels[place])
        try:
            info: pb.GetInfoResponse = await stub.GetInfo(pb.GetInfoRequest(), timeout=2)
        except grpc.aio.AioRpcError:
            return None
        return info

    async def facts(self, place: Place) -> ReplicaFacts:
        """What a replica says. Raises OutriderError."""
        return await (target_facts if place.role == "target" else draft_facts)(self.channels[place])

    async def _sees(self, orchestrator: Place, wanted: dict[str, int]) -> bool:
        info = await self.info(orchestrator)
        if info is None:
            return False
        pools = {"target": info.targets, "draft": info.drafts}
        ready = {role: sum(one.state == pb.REPLICA_STATE_READY for one in pool) for role, pool in pools.items()}
        return all(ready[role] >= count for role, count in wanted.items())

    async def well(self, role: str) -> None:
        """Wait until both of a role are in use, or for orchestrators, until they have a target."""
        wanted = {"target": 1} if role == "orchestrator" else {role: 2}
        for orchestrator in self.of("orchestrator"):

            async def sees(who: Place = orchestrator) -> bool:
                return await self._sees(who, wanted)

            await until(sees, f"{orchestrator} has {wanted}", READY_S)

    async def close(self) -> None:
        for box in self.boxes.values():
            await box.close()
        for channel in self.channels.values():
            await channel.close()


def _variables(place: Place, redis: str, proxy: str, models: Path) -> dict[str, str]:
    common = {"OUTRIDER_REGISTRY": redis, "OUTRIDER_LEASE_S": str(LEASE_S), "OUTRIDER_SESSION_TTL_S": str(KEPT_S)}
    if place.role == "orchestrator":
        return common | _ORCHESTRATOR | {"OUTRIDER_JOURNAL": redis, "OUTRIDER_TOKENIZER": str(models / "target")}
    own = {"OUTRIDER_ADVERTISE": proxy, "OUTRIDER_MODEL": str(models / place.role)}
    return common | _MODEL | own | ({"OUTRIDER_QUEUE_S": "5"} if place.role == "target" else {})


@contextlib.asynccontextmanager
async def running(models: Path, logs: Path, places: tuple[Place, ...]) -> AsyncIterator[System]:
    """The system, when all of it is well. ``models`` is a folder for them."""
    build_model(models / "target")
    build_model(models / "draft", noise=0.02)
    async with contextlib.AsyncExitStack() as stack:
        address = free_address()
        redis = RedisBox(address, await stack.enter_async_context(Proxy(address)))
        stack.push_async_callback(redis.stop)
        await redis.start()
        boxes: dict[Place, Box] = {}
        channels: dict[Place, grpc.aio.Channel] = {}
        for place in places:
            address = free_address()
            proxy = await stack.enter_async_context(Proxy(address))
            module = "orchestrator" if place.role == "orchestrator" else f"{place.role}_service"
            variables = _variables(place, redis.url, proxy.address, models)
            boxes[place] = Box(str(place), module, address, proxy, variables, logs)
            channels[place] = grpc.aio.insecure_channel(address, options=[("grpc.max_reconnect_backoff_ms", 200)])
        system = System(redis, boxes, channels)
        stack.push_async_callback(system.close)
        await asyncio.gather(*(box.start() for box in boxes.values()))
        for role in ("target", "draft", "orchestrator"):
            await system.well(role)
        yield system
