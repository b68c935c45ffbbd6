"""Between gRPC and the handlers: errors become statuses, and what is no message is refused as what it is.

It does not know which service it guards.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from outrider import semconv
from outrider.credentials import check_peer
from outrider.errors import DeadlineExceeded, InvalidArgument, OutriderError
from outrider.instruments import Histogram
from outrider.status import to_status
from outrider.wire import refuse_unknown_fields

log = logging.getLogger(__name__)
calls = Histogram(semconv.M_CALLS)
"""Of this process, by method and status."""
FIRST_MESSAGE_S = 10.0
"""In which a call must have brought its first message."""
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


async def _each_checked(requests: Any) -> AsyncIterator[Any]:
    """The messages of a call. A caller that opens calls and says nothing holds each for a short time only."""
    messages = aiter(requests)
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            first = await anext(messages)
    except TimeoutError:
        raise DeadlineExceeded(f"the first message did not come within {FIRST_MESSAGE_S:g} s") from None
    except StopAsyncIteration:
        return
    yield _checked(first)
    async for request in messages:
        yield _checked(request)


async def _only(requests: AsyncIterator[Any]) -> Any:
    async for request in requests:
        return request
    raise InvalidArgument("request", "the call had no message")


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
    """Lets in the ``peers`` whose certificates have one of these names, or everybody where there are none, and turns
    exceptions of handlers into statuses. Handlers raise OutriderErrors and never call abort. Unknown
    fields of a request that has one answer are refused here; what is answered by a stream, its handler checks.

    What gRPC itself raises in them, for instance that the server has stopped under a call, is left to gRPC.
    """

    def __init__(self, peers: Collection[str] = ()) -> None:
        self._peers = peers

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Wrap the handler of a call. All become handlers of streams, whose first message can be waited for with an
        end; on the wire it is the same."""
        handler = await continuation(details)
        if handler is None or not details.method.startswith("/outrider."):
            return handler
        if handler.stream_stream is not None:
            guarded: Any = _guard_stream(handler.stream_stream, details.method, self._peers)
            factory = grpc.stream_stream_rpc_method_handler
        elif handler.response_streaming:
            guarded = _guard_stream(_of_first(handler.unary_stream), details.method, self._peers)
            factory = grpc.stream_stream_rpc_method_handler
        else:
            guarded = _guard_unary(handler.unary_unary, details.method, self._peers)
            factory = grpc.stream_unary_rpc_method_handler
        return factory(guarded, _reading(handler.request_deserializer), handler.response_serializer)


def _of_first(behavior: Any) -> Callable[[AsyncIterator[Any], Any], AsyncIterator[Any]]:
    """A handler of one request as a handler of a stream of them."""

    async def answer(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(behavior(await _only(requests), context)) as responses:
            async for response in responses:
                yield response

    return answer


def _guard_unary(behavior: Any, method: str, peers: Collection[str]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def guarded(requests: Any, context: Any) -> Any:
        began, gone = time.perf_counter(), False
        try:
            check_peer(context, peers)
            request = await _only(_each_checked(requests))
            refuse_unknown_fields(request)
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


def _guard_stream(behavior: Any, method: str, peers: Collection[str]) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def guarded(requests: Any, context: Any) -> AsyncIterator[Any]:
        began, gone = time.perf_counter(), False
        try:
            check_peer(context, peers)
            async with contextlib.aclosing(behavior(_each_checked(requests), context)) as responses:
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
