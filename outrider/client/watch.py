"""A call that is read as its events come, and given up when it has gone silent and so has its server.

Silence alone means nothing: a long prompt takes its time. So after a while without an event the server is asked
something else over the same connection, and only when that finds no answer either is the call lost. Time in which the
caller does not ask for an event does not count.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from outrider.errors import Unavailable


class Watch:
    """One call. ``stalled``: it was given up. ``stall_s`` None waits for ever."""

    def __init__(self, call: Any, alive: Callable[[], Awaitable[bool]], stall_s: float | None) -> None:
        self._call = call
        self._alive = alive
        self._stall_s = stall_s
        self._since = math.inf
        self.stalled = False

    async def events(self) -> AsyncGenerator[Any, None]:
        """What the call brings. Raises what it raises, and Unavailable when it stalls."""
        watching = None if self._stall_s is None else asyncio.create_task(self._watch(self._stall_s))
        reading = aiter(self._call)
        try:
            while True:
                self._since = time.monotonic()
                try:
                    event = await anext(reading)
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError:
                    self._raise_if_stalled()
                    raise
                self._since = math.inf
                yield event
        finally:
            if watching is not None:
                watching.cancel()

    def _raise_if_stalled(self) -> None:
        task = asyncio.current_task()
        if self.stalled and not (task is not None and task.cancelling()):
            raise Unavailable(f"nothing came for {self._stall_s:g} s, and it does not answer otherwise") from None

    async def _watch(self, stall_s: float) -> None:
        while not self.stalled:
            since = self._since
            silent_s = time.monotonic() - since
            if silent_s < stall_s:
                await asyncio.sleep(min(stall_s, stall_s - silent_s))
            elif await self._alive():
                self._since = time.monotonic() if self._since == since else self._since
            elif self._since == since:
                self.stalled = True
                self._call.cancel()
