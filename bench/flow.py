"""One direction of a connection through a line: pieces in order, each with the moment at which it leaves.

Bytes, ends and resets go the same way, so nothing overtakes. It does not know who listens or connects.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from bench.alarm import Alarm
from bench.shape import Line, Shape

WINDOW_BYTES = 16 << 20
"""Most bytes on their way in one direction; a sender that is ahead by more waits, as with any full buffer."""


class Peer(Protocol):
    """A socket of the connection. ``into`` is the flow that it sends."""

    open: bool
    transport: asyncio.Transport
    into: "Flow"

    def reset(self) -> None:
        """End the connection at once."""


class Flow:
    """From what ``source`` receives to what ``sink`` sends. ``ended`` says that the source's end was delivered."""

    def __init__(self, source: Peer, sink: Peer, line: Line) -> None:
        self._source, self._sink, self._line = source, sink, line
        self._alarm = Alarm(self.run)
        self._pieces: deque[tuple[float, int, Callable[[], None]]] = deque()
        self._bytes = 0
        self._frozen = self._held = self._paused = self._dropped = False
        self.ended = False

    def take(self, data: bytes) -> None:
        """Send bytes along the line."""
        size = self._line.shape.slice_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._add(len(piece), partial(self._write, piece))
        self._regulate()

    def end(self) -> bool:
        """The source sends no more. Whether somebody may still send to it."""
        self._add(0, self._write_end)
        return not self._dropped

    def close(self, reset: bool) -> None:
        """The source has gone, cleanly or not."""
        self._add(0, self._sink.reset if reset else self._close)

    def drop(self) -> None:
        """Forget what is on its way and whatever comes: nobody will receive it."""
        self._dropped = True
        self._pieces.clear()
        self._bytes = 0
        self._regulate()

    def freeze(self, frozen: bool) -> None:
        """Deliver nothing, or go on."""
        self._frozen = frozen
        self.run()

    def reshape(self, shape: Shape) -> None:
        """What comes from now on goes along another line; what is on its way keeps its time and its place."""
        self._line.shape = shape

    def hold(self, held: bool) -> None:
        """Read no more from the source, or go on."""
        self._held = held
        self._regulate()

    def run(self) -> None:
        """Deliver what is due, and ring again for the next piece; nothing before there is a sink."""
        if self._frozen or not self._sink.open:
            return
        while self._pieces and self._pieces[0][0] <= time.monotonic():
            _, size, deliver = self._pieces.popleft()
            self._bytes -= size
            deliver()
        if self._pieces:
            self._alarm.set(self._pieces[0][0])
        self._regulate()

    def stop(self) -> None:
        """Give the timer back."""
        self.drop()
        self._alarm.close()

    def _add(self, size: int, deliver: Callable[[], None]) -> None:
        if self._dropped:
            return
        due = self._line.due(time.monotonic(), size)
        self._pieces.append((due, size, deliver))
        self._bytes += size
        if len(self._pieces) == 1:
            self._alarm.set(due)

    def _regulate(self) -> None:
        paused = not self._dropped and (self._held or self._bytes >= WINDOW_BYTES)
        if paused == self._paused or not self._source.open or self._source.transport.is_closing():
            return
        self._paused = paused
        if paused:
            self._source.transport.pause_reading()
        else:
            self._source.transport.resume_reading()

    def _write(self, data: bytes) -> None:
        if not self._sink.transport.is_closing():
            self._sink.transport.write(data)

    def _write_end(self) -> None:
        self.ended = True
        if self._source.into.ended:
            self._close()
            self._source.transport.close()
        elif not self._sink.transport.is_closing():
            self._sink.transport.write_eof()

    def _close(self) -> None:
        self._sink.transport.close()
