"""Two of each service as processes, with one Redis for registry and journal, for commands that look at the whole.

Engines are synthetic: their text depends on every token in the caches, and a process starts in seconds.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from outrider.client import Client
from tests.integration.processes import Service, free_address, running, serves
from tests.redis_server import RedisServer, redis_server
from tests.waiting import until

ROLES = ("target_service", "draft_service", "orchestrator")
_ENGINE = {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_SYNTHETIC_PASS_MS": "10", "OUTRIDER_KV_BYTES": "8MiB"}


@dataclass(slots=True)
class System:
    """Processes by role, the variables of each role, and their Redis."""

    redis: RedisServer
    variables: dict[str, dict[str, str]]
    stack: contextlib.AsyncExitStack
    services: dict[str, list[Service]] = field(default_factory=dict)

    async def start(self, role: str, address: str) -> Service:
        """One process, once it serves."""
        variables = self.variables[role] | {"OUTRIDER_LISTEN": address}
        service = await self.stack.enter_async_context(running(role, variables))
        await serves(service)
        return service

    async def replace(self, role: str, place: int) -> int:
        """Stop one with SIGTERM and start it again at its address; its exit code."""
        old = self.services[role][place]
        await old.terminate()
        code, _ = await old.ended()
        self.services[role][place] = await self.start(role, old.address)
        return code


@contextlib.asynccontextmanager
async def two_of_each(model: Path) -> AsyncIterator[System]:
    """Running and serving."""
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server())
        shared = {"OUTRIDER_REGISTRY": redis.url}
        replica = shared | _ENGINE | {"OUTRIDER_MODEL": str(model)}
        orchestrator = shared | {"OUTRIDER_TOKENIZER": str(model), "OUTRIDER_JOURNAL": redis.url}
        made = System(redis, dict(zip(ROLES, (replica, replica, orchestrator), strict=True)), stack)
        for role in ROLES:
            made.services[role] = [await made.start(role, free_address()) for _ in range(2)]
        yield made


async def all_known(client: Client, replicas: int = 4) -> None:
    """Wait until the orchestrator has greeted so many replicas."""

    async def known() -> bool:
        info = await client.info()
        return sum(status.HasField("info") for status in (*info.targets, *info.drafts)) == replicas

    await until(known, "all replicas are known")
