"""The messages of a call: in time, readable, and as many as the call takes. It does not know what they say."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.message import DecodeError

from outrider.errors import DeadlineExceeded, InvalidArgument

FIRST_MESSAGE_S = 10.0
"""In which a call must have brought its first message: one that opens calls and says nothing holds each for a short
time only."""


class _Unreadable:
    """Stands for bytes that are no message. gRPC itself would log a stack trace for each, and answer UNKNOWN."""


def reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """A deserializer that never raises; what it could not read is refused when the handler asks for it."""

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


async def each(requests: Any) -> AsyncIterator[Any]:
    """The messages of a call. Raises DeadlineExceeded when the first does not come, InvalidArgument for junk."""
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


async def only(requests: AsyncIterator[Any]) -> Any:
    """The message of a call that has one. Raises InvalidArgument for none and for more, DeadlineExceeded when the
    caller keeps it open for more."""
    messages = aiter(requests)
    message = await anext(messages, None)
    if message is None:
        raise InvalidArgument("request", "the call takes one message, and had none")
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            more = await anext(messages, None)
    except TimeoutError:
        raise DeadlineExceeded(f"the one message was not followed by its end within {FIRST_MESSAGE_S:g} s") from None
    if more is not None:
        raise InvalidArgument("request", "the call takes one message, and had more")
    return message
