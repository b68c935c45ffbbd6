"""Between gRPC and the handlers: calls that are let in, messages that are read, errors that become statuses.

It does not know which service it guards, nor who may call: ``guard.py`` does.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

import grpc

from outrider import incoming, semconv
from outrider.errors import OutriderError
from outrider.guard import Guard
from outrider.instruments import Histogram
from outrider.status import to_status
from outrider.wire import refuse_unknown_fields

log = logging.getLogger(__name__)
calls = Histogram(semconv.M_CALLS)
"""Of this process, by method and status; health checks and reflection are not counted."""
_COUNTED = "/outrider."
_QUIET_S = 5.0
"""After which the messages of a call that has places of its own are over: a drain need not wait for one that only stays
open."""
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


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
        unserved = isinstance(error, NotImplementedError) and self._context.code() is grpc.StatusCode.UNIMPLEMENTED
        if unserved:  # gRPC's generated servicers say so
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
            guarded: Any = self._stream(self._of_each(handler.stream_stream, details.method), details.method)
            factory = grpc.stream_stream_rpc_method_handler
        elif handler.unary_stream is not None:
            guarded = self._stream(_of_first(handler.unary_stream), details.method)
            factory = grpc.stream_stream_rpc_method_handler
        else:
            guarded = self._unary(handler.unary_unary, details.method)
            factory = grpc.stream_unary_rpc_method_handler
        return factory(guarded, incoming.reading(handler.request_deserializer), handler.response_serializer)

    def _of_each(self, behavior: Any, method: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
        quiet_s = _QUIET_S if method in self._guard.places else None
        return lambda requests, context: behavior(incoming.each(requests, quiet_s), context)

    def _unary(self, behavior: Any, method: str) -> Callable[[Any, Any], Awaitable[Any]]:
        async def guarded(requests: Any, context: Any) -> Any:
            async with _Call(self._guard, context, method) as call:
                call.enter()
                request = await incoming.only(requests)
                refuse_unknown_fields(request)
                return await behavior(request, context)

        return guarded

    def _stream(self, behavior: Any, method: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with _Call(self._guard, context, method) as call:
                call.enter()
                async with contextlib.aclosing(behavior(requests, context)) as responses:
                    async for response in responses:
                        yield response

        return guarded


def _of_first(behavior: Any) -> Callable[[Any, Any], AsyncIterator[Any]]:
    """A handler of one request as a handler of a stream of them."""

    async def answer(requests: Any, context: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(behavior(await incoming.only(requests), context)) as responses:
            async for response in responses:
                yield response

    return answer
