"""Between gRPC and the handlers: errors become statuses, and what is no message is refused as what it is.

It does not know which service it guards.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from outrider import semconv
from outrider.errors import InvalidArgument, OutriderError
from outrider.instruments import Histogram
from outrider.status import to_status
from outrider.wire import refuse_unknown_fields

log = logging.getLogger(__name__)
calls = Histogram(semconv.M_CALLS)
"""Of this process, by method and status."""
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}


class _Unreadable:
    """Stands for bytes that are no message. gRPC itself would log a stack trace for each, and answer UNKNOWN."""


def _reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError:
            return _Unreadable()

    return read


def _checked(request: Any) -> Any:
    if isinstance(request, _Unreadable):
        raise InvalidArgument("request", "cannot be parsed as the message of this call")
    return request


async def _each_checked(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _checked(request)


async def _abort(context: Any, method: str, error: Exception) -> None:
    if not isinstance(error, OutriderError):
        log.exception("%s failed", method, exc_info=error)
    await context.abort_with_status(to_status(error))


def _count(context: Any, method: str, began: float, gone: bool) -> None:
    """A call has ended. One whose caller has ``gone`` has no status of ours."""
    code = grpc.StatusCode.CANCELLED if gone else context.code() or grpc.StatusCode.OK
    name = code.name if isinstance(code, grpc.StatusCode) else _CODES.get(code, str(code))
    calls.record(time.perf_counter() - began, method.lstrip("/"), name)


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
        return factory(guarded, _reading(handler.request_deserializer), handler.response_serializer)


def _guard_unary(behavior: Any, method: str) -> Callable[[Any, Any], Awaitable[Any]]:
    async def guarded(request: Any, context: Any) -> Any:
        began, gone = time.perf_counter(), False
        try:
            refuse_unknown_fields(_checked(request))
            return await behavior(request, context)
        except (GeneratorExit, asyncio.CancelledError):
            gone = True
            raise
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _abort(context, method, error)
        finally:
            _count(context, method, began, gone)

    return guarded


def _guard_stream(behavior: Any, method: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
        began, gone = time.perf_counter(), False
        try:
            checked = _each_checked(requests) if hasattr(requests, "__aiter__") else _checked(requests)
            async with contextlib.aclosing(behavior(checked, context)) as responses:
                async for response in responses:
                    yield response
        except (GeneratorExit, asyncio.CancelledError):
            gone = True
            raise
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            await _abort(context, method, error)
        finally:
            _count(context, method, began, gone)

    return guarded
