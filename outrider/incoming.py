"""The messages of a call: in time, readable, and as many as the call takes. It does not know what they say."""

import asyncio
import contextlib
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


async def each(requests: Any, quiet_s: float | None = None) -> AsyncIterator[Any]:
    """The messages of a call; they are over when none has come for ``quiet_s`` (None: they may take any time). Raises
    DeadlineExceeded when the first does not come, InvalidArgument for junk."""
    messages = aiter(requests)
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            first = await anext(messages)
    except TimeoutError:
        raise DeadlineExceeded(f"the first message did not come within {FIRST_MESSAGE_S:g} s") from None
    except StopAsyncIteration:
        return
    yield _checked(first)
    async for request in messages if quiet_s is None else _until_quiet(messages, quiet_s):
        yield _checked(request)


async def _until_quiet(messages: AsyncIterator[Any], quiet_s: float) -> AsyncIterator[Any]:
    with contextlib.suppress(TimeoutError, StopAsyncIteration):
        while True:
            async with asyncio.timeout(quiet_s):
                message = await anext(messages)
            yield message


async def only(requests: Any) -> Any:
    """The message of a call that has one. Raises InvalidArgument for none, more or junk, DeadlineExceeded when it or
    the caller's end does not come."""
    messages = aiter(requests)
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            message = await anext(messages, None)
            more = await anext(messages, None)
    except TimeoutError:
        raise DeadlineExceeded(
            f"the first message, and the end after it, did not come in {FIRST_MESSAGE_S:g} s"
        ) from None
    if message is None or more is not None:
        raise InvalidArgument("request", f"the call takes one message, and had {'none' if message is None else 'more'}")
    return _checked(message)
