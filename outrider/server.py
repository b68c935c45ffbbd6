"""What every Outrider server has: health, reflection, certificates if wanted, and a drain on SIGTERM.

It does not know which service it carries.
"""

import asyncio
import logging
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from outrider import health
from outrider.channel import SERVER_OPTIONS
from outrider.guard import Guard
from outrider.interceptor import GuardInterceptor

log = logging.getLogger(__name__)
_PLACES = {health.WATCH: 256, f"/{reflection.SERVICE_NAME}/ServerReflectionInfo": 64}
"""Most calls at once of what lasts as long as the caller likes: it cannot take the places of all others."""
_MOST_CHECKS = 1024
"""Health checks in the clear at once: whoever floods them floods nothing else."""
_WAY_OUT_S = 0.05
"""gRPC has stopped when the calls are over; their handlers may need a few more turns of the loop to end. One that the
end of the loop cancelled would be logged as an error."""


@dataclass(slots=True)
class Server:
    """A gRPC server with health and reflection. ``port`` is set by ``start``.

    ``credentials``: of its certificates, None for none; ``peers``: names in the certificates of who may call, empty for
    everybody. ``health_listen``: where a second server answers health checks in the clear; empty for none. There the
    service's name says whether it serves, and no name whether the process lives, which is no reason to end one that
    only waits for others.
    """

    listen: str
    services: Sequence[str]
    max_streams: int = 1024
    drain_s: float = 20.0
    credentials: grpc.ServerCredentials | None = None
    peers: frozenset[str] = frozenset()
    health_listen: str = ""
    port: int = 0
    grpc_server: Any = None
    _health: health.Health = field(default_factory=health.Health)
    _clear_health: health.Checks = field(default_factory=health.Checks)
    _clear_server: Any = None

    def __post_init__(self) -> None:
        self.grpc_server = grpc.aio.server(
            interceptors=[GuardInterceptor(Guard(self.peers, _PLACES, self.max_streams))],
            options=SERVER_OPTIONS,
            maximum_concurrent_rpcs=self.max_streams + sum(_PLACES.values()),
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc_server)
        names = [*self.services, health.NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, self.grpc_server)

    async def start(self) -> None:
        """Listen, not yet serving. Raises OSError naming the setting and the address when it is taken."""
        self.port = _listen("OUTRIDER_LISTEN", self.grpc_server, self.listen, self.credentials)
        if self.health_listen:
            await self._open_health()
        await self.set_serving(False)
        for server in filter(None, (self.grpc_server, self._clear_server)):
            await server.start()

    async def _open_health(self) -> None:
        self._clear_server = grpc.aio.server(
            interceptors=[GuardInterceptor()], options=SERVER_OPTIONS, maximum_concurrent_rpcs=_MOST_CHECKS
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._clear_health, self._clear_server)
        _listen("OUTRIDER_HEALTH", self._clear_server, self.health_listen, None)
        await self._clear_health.set("", True)

    async def set_serving(self, serving: bool) -> None:
        """Answer health checks of every service."""
        for name in ("", *self.services):
            await self._health.set(name, serving)
        for name in self.services:
            await self._clear_health.set(name, serving)

    async def drain(self) -> None:
        """NOT_SERVING, refuse new calls, let running ones end within the drain time, then cancel them."""
        await self.set_serving(False)
        await self._health.close()
        await self.grpc_server.stop(self.drain_s)
        if self._clear_server is not None:
            await self._clear_server.stop(None)
        await asyncio.sleep(_WAY_OUT_S)


def _listen(setting: str, server: Any, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, credentials))
    except RuntimeError as error:
        raise OSError(f"{setting}={address}: cannot listen there: is another process using it?") from error


async def wait_for_signal() -> str:
    """Return the name of the first SIGTERM, SIGINT or SIGHUP; a second Ctrl-C ends the process at once."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[str] = loop.create_future()

    def handle(number: signal.Signals) -> None:
        if not received.done():
            received.set_result(number.name)
        loop.remove_signal_handler(signal.SIGINT)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, handle, number)
    return await received
