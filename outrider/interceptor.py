"""Between gRPC and the handlers: who may call, how many at once, and errors that become statuses.

It does not know which service it guards.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import grpc

from outrider import requests as messages
from outrider import semconv
from outrider.credentials import check_peer
from outrider.errors import OutriderError, ResourceExhausted
from outrider.instruments import Histogram
from outrider.status import to_status
from outrider.wire import refuse_unknown_fields

log = logging.getLogger(__name__)
calls = Histogram(semconv.M_CALLS)
"""Of this process, by method and status; health checks and reflection are not counted."""
_COUNTED = "/outrider."
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may call and how many calls of a method may run at once. Owner of the numbers that do."""

    peers: Collection[str] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    _running: Counter[str] = field(default_factory=Counter)

    def enter(self, context: Any, method: str) -> None:
        """A call begins; ``leave`` ends it. Raises PermissionDenied and ResourceExhausted."""
        check_peer(context, self.peers)
        most = self.places.get(method)
        if most is not None and self._running[method] >= most:
            raise ResourceExhausted(f"{method.lstrip('/')} is called {most} times at once already")
        self._running[method] += 1

    def leave(self, method: str) -> None:
        """It has ended."""
        self._running[method] -= 1


class _Call:
    """One call while its handler runs: let in, counted, and its errors told as statuses.

    What gRPC itself raises in handlers, for instance that the server has stopped under a call, is left to gRPC.
    """

    def __init__(self, guard: Guard, context: Any, method: str) -> None:
        self._guard, self._context, self._method = guard, context, method
        self._began = time.perf_counter()
        self._inside = False

    def enter(self) -> None:
        """Raises what the guard raises."""
        self._guard.enter(self._context, self._method)
        self._inside = True

    async def __aenter__(self) -> "_Call":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inside:
            self._guard.leave(self._method)
        gone = isinstance(error, GeneratorExit | asyncio.CancelledError)
        try:
            if isinstance(error, Exception) and not gone and not isinstance(error, grpc.aio.BaseError):
                await self._abort(error)
        finally:
            self._count(gone)

    async def _abort(self, error: Exception) -> None:
        if isinstance(error, NotImplementedError):  # of gRPC's generated servicers
            await self._context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{self._method.lstrip('/')} is not served here")
        if not isinstance(error, OutriderError):
            log.exception("%s failed", self._method, exc_info=error)
        await self._context.abort_with_status(to_status(error))

    def _count(self, gone: bool) -> None:
        """A call whose caller has ``gone`` has no status of ours."""
        if not self._method.startswith(_COUNTED):
            return
        code = grpc.StatusCode.CANCELLED if gone else self._context.code() or grpc.StatusCode.OK
        name = code.name if isinstance(code, grpc.StatusCode) else _CODES.get(code, str(code))
        calls.record(time.perf_counter() - self._began, self._method.lstrip("/"), name)


class GuardInterceptor(grpc.aio.ServerInterceptor):
    """Lets in whom the guard lets in, and turns exceptions of handlers into statuses. Handlers raise OutriderErrors
    and never call abort. Unknown fields of a request that has one answer are refused here; what is answered by a
    stream, its handler checks.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        self._guard = guard or Guard()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Wrap the handler of a call. All become handlers of streams, whose first message can be waited for with an
        end; on the wire it is the same."""
        handler = await continuation(details)
        if handler is None:
            return None
        if handler.stream_stream is not None:
            guarded: Any = self._stream(handler.stream_stream, details.method)
            factory = grpc.stream_stream_rpc_method_handler
        elif handler.unary_stream is not None:
            guarded = self._stream(_of_first(handler.unary_stream), details.method)
            factory = grpc.stream_stream_rpc_method_handler
        else:
            guarded = self._unary(handler.unary_unary, details.method)
            factory = grpc.stream_unary_rpc_method_handler
        return factory(guarded, messages.reading(handler.request_deserializer), handler.response_serializer)

    def _unary(self, behavior: Any, method: str) -> Callable[[Any, Any], Awaitable[Any]]:
        async def guarded(requests: Any, context: Any) -> Any:
            async with _Call(self._guard, context, method) as call:
                call.enter()
                request = await messages.only(messages.each(requests))
                refuse_unknown_fields(request)
                return await behavior(request, context)

        return guarded

    def _stream(self, behavior: Any, method: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with _Call(self._guard, context, method) as call:
                call.enter()
                async with contextlib.aclosing(behavior(messages.each(requests), context)) as responses:
                    async for response in responses:
                        yield response

        return guarded


def _of_first(behavior: Any) -> Callable[[AsyncIterator[Any], Any], AsyncIterator[Any]]:
    """A handler of one request as a handler of a stream of them."""

    async def answer(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(behavior(await messages.only(requests), context)) as responses:
            async for response in responses:
                yield response

    return answer
