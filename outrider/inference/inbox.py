"""The messages of one stream, and answers that end when the next message comes.

It knows tasks and asynchronous iterators, not what a message is.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any

_END = object()


class Inbox:
    """Reads a stream, one message ahead where an answer has to know of the next one."""

    def __init__(self, messages: AsyncIterable[Any]) -> None:
        self._messages = aiter(messages)
        self._reading: asyncio.Future[Any] | None = None

    def __aiter__(self) -> "Inbox":
        return self

    async def __anext__(self) -> Any:
        """The next message. Raises StopAsyncIteration after the last."""
        if self._reading is None:
            return await anext(self._messages)
        message = await self._reading
        self._reading = None
        if message is _END:
            raise StopAsyncIteration
        return message

    async def before_next(self, answers: AsyncGenerator[Any, None]) -> AsyncIterator[Any]:
        """The answers, cut off when the next message has come. The end of the messages cuts nothing off."""
        reading = self._reading = asyncio.ensure_future(anext(self._messages, _END))
        while True:
            step = asyncio.ensure_future(anext(answers, _END))
            try:
                await asyncio.wait({reading, step}, return_when=asyncio.FIRST_COMPLETED)
                answer = await step if step.done() or reading.result() is _END else _END
            finally:
                await _cancel(step)
            if answer is _END:
                return
            yield answer

    async def close(self) -> None:
        """Read no further."""
        if self._reading is not None:
            await _cancel(self._reading)


async def _cancel(future: asyncio.Future[Any]) -> None:
    """End a future, and what it stands for, unless it is over; how it ends is nobody's business."""
    if not future.done():
        future.cancel()
        await asyncio.wait({future})
    if not future.cancelled():
        future.exception()
