"""What every Outrider server has: health, reflection, errors as statuses, and a drain on SIGTERM.

It does not know which service it carries.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from outrider.channel import SERVER_OPTIONS
from outrider.errors import OutriderError
from outrider.status import to_status
from outrider.wire import refuse_unknown_fields

log = logging.getLogger(__name__)
_LISTEN_FAILED = "cannot listen on {address}: is another process using it?"

_WAY_OUT_S = 0.05
"""gRPC has stopped when the calls are over; their handlers may need a few more turns of the loop to end. One that the
end of the loop cancelled would be logged as an error."""


async def _abort(context: Any, method: str, error: Exception) -> None:
    if not isinstance(error, OutriderError):
        log.exception("%s failed", method, exc_info=error)
    await context.abort_with_status(to_status(error))


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Turns exceptions of handlers into statuses. Handlers raise OutriderErrors and never call abort. Unknown
    fields of a request that has one answer are refused here; what is answered by a stream, its handler checks.

    What gRPC itself raises in them, for instance that the server has stopped under a call, is left to gRPC.
    """

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Wrap the handler of a call."""
        handler = await continuation(details)
        if handler is None or not details.method.startswith("/outrider."):
            return handler
        if handler.response_streaming:
            guarded: Any = _guard_stream(handler.stream_stream or handler.unary_stream, details.method)
            factory = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
        else:
            guarded = _guard_unary(handler.unary_unary, details.method)
            factory = grpc.unary_unary_rpc_method_handler
        return factory(guarded, handler.request_deserializer, handler.response_serializer)


def _guard_unary(behavior: Any, method: str) -> Callable[[Any, Any], Awaitable[Any]]:
    async def guarded(request: Any, context: Any) -> Any:
        try:
            refuse_unknown_fields(request)
            return await behavior(request, context)
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _abort(context, method, error)

    return guarded


def _guard_stream(behavior: Any, method: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async with contextlib.aclosing(behavior(requests, context)) as responses:
                async for response in responses:
                    yield response
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _abort(context, method, error)

    return guarded


@dataclass(slots=True)
class Server:
    """A gRPC server with health and reflection. ``port`` is set by ``start``."""

    listen: str
    services: Sequence[str]
    max_streams: int = 1024
    drain_s: float = 20.0
    port: int = 0
    health: Any = field(default_factory=HealthServicer)
    grpc_server: Any = None

    def __post_init__(self) -> None:
        self.grpc_server = grpc.aio.server(
            interceptors=[ErrorInterceptor()], options=SERVER_OPTIONS, maximum_concurrent_rpcs=self.max_streams
        )
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.grpc_server)
        names = [*self.services, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, self.grpc_server)

    async def start(self) -> None:
        """Listen, not yet serving. Raises OSError naming the address when it is taken."""
        try:
            self.port = self.grpc_server.add_insecure_port(self.listen)
        except RuntimeError as error:
            raise OSError(_LISTEN_FAILED.format(address=self.listen)) from error
        await self.set_serving(False)
        await self.grpc_server.start()

    async def set_serving(self, serving: bool) -> None:
        """Answer health checks of every service."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self.services):
            await self.health.set(name, status)

    async def drain(self) -> None:
        """NOT_SERVING, refuse new calls, let running ones end within the drain time, then cancel them."""
        await self.set_serving(False)
        await self.grpc_server.stop(self.drain_s)
        await asyncio.sleep(_WAY_OUT_S)


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
