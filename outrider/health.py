"""The gRPC health service: what is asked for is told, and whoever watches hears of every change.

It does not know what decides: ``server.py`` is told. grpcio-health-checking's own forgets all watchers of a service
when one of them leaves.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.errors import NotFound

_Status = health_pb2.HealthCheckResponse
NAME = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
WATCH = f"/{NAME}/Watch"


class Checks(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # grpcio-health-checking has no types
    """Owner of which services serve; answers Check, and nothing that lasts."""

    def __init__(self) -> None:
        self._statuses: dict[str, Any] = {}
        self._changed = asyncio.Condition()
        self._over = False

    async def set(self, service: str, serving: bool) -> None:
        """Whether a service, "" for all, serves from now on."""
        self._statuses[service] = _Status.SERVING if serving else _Status.NOT_SERVING
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _status(self, service: str) -> Any:
        return self._statuses.get(service, _Status.SERVICE_UNKNOWN)

    async def Check(self, request: Any, context: Any) -> Any:
        """Whether a service serves. Raises NotFound."""
        status = self._statuses.get(request.service)
        if status is None:
            known = ", ".join(repr(name) for name in self._statuses)
            raise NotFound("service", f"there is no {request.service[:100]!r} here, only {known}")
        return _Status(status=status)


class Health(Checks):
    """Answers Watch as well, until ``close``: a server that drains need not wait for who only watches."""

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Whether a service serves, now and whenever that changes."""
        shown = None
        while True:
            async with self._changed:
                while self._status(request.service) == shown and not self._over:
                    await self._changed.wait()
            if self._status(request.service) == shown:
                return
            shown = self._status(request.service)
            yield _Status(status=shown)

    async def close(self) -> None:
        """End every Watch."""
        self._over = True
        await self._tell()
