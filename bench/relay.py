"""One connection through a line: two sockets, and what each receives on its way to the other.

Bytes, ends and resets keep their order and arrive as the line says. It does not know who listens or connects.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

from bench.flow import Flow
from bench.shape import Line, Shape

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: closing sends RST instead of FIN


class End(asyncio.Protocol):
    """One socket of a relay. ``out`` takes what it receives, ``into`` carries what it sends. It is first not there
    yet, then ``open``, then ``gone``; one that is given up before it is there is gone at once."""

    transport: asyncio.Transport
    out: Flow
    into: Flow

    def __init__(self, opened: Callable[[], None], lost: Callable[[], None]) -> None:
        self._opened = opened
        self._lost = lost
        self.open = False
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self.transport = cast(asyncio.Transport, transport)
        if self.gone:
            self._abort()
            return
        self.open = True
        self._opened()

    def data_received(self, data: bytes) -> None:
        """Bytes for the other end."""
        self.out.take(data)

    def eof_received(self) -> bool:
        """The peer sends no more; it may still receive."""
        return self.out.end()

    def connection_lost(self, error: Exception | None) -> None:
        """The other end learns it after what was sent before."""
        if self.gone:
            return
        self._leave()
        self.out.close(reset=error is not None)
        self._lost()

    def pause_writing(self) -> None:
        """The peer does not read fast enough."""
        self.into.hold(True)

    def resume_writing(self) -> None:
        """It has caught up."""
        self.into.hold(False)

    def reset(self) -> None:
        """End the connection at once, now or as soon as it is there; the peer sees a reset."""
        if self.open:
            self._abort()
        elif not self.gone:
            self._leave()
            self._lost()

    def _leave(self) -> None:
        self.open, self.gone = False, True
        self.into.drop()

    def _abort(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


class Relay:
    """A client's socket and the one to the server behind it. ``done`` is called when both have ended."""

    def __init__(
        self, shape: Shape, number: int, opened: Callable[["Relay"], None], done: Callable[["Relay"], None]
    ) -> None:
        self._done = done
        self.client = End(lambda: opened(self), self._lost)
        self.upstream = End(lambda: self.client.out.run(), self._lost)
        self.client.out = self.upstream.into = Flow(self.client, self.upstream, Line(shape, f"{number} up"))
        self.upstream.out = self.client.into = Flow(self.upstream, self.client, Line(shape, f"{number} down"))
        self._flows = (self.client.out, self.upstream.out)

    def freeze(self, frozen: bool) -> None:
        """Hold everything, ends and resets included, or let it go on."""
        for flow in self._flows:
            flow.freeze(frozen)

    def reshape(self, shape: Shape) -> None:
        """Let the line be another one from now on."""
        for flow in self._flows:
            flow.reshape(shape)

    def cut(self) -> None:
        """Both peers see a reset."""
        self.half_open(self.client)
        self.upstream.reset()

    def half_open(self, gone: End) -> None:
        """One peer sees a reset; the other never learns of it, and what it sends is lost."""
        for flow in self._flows:
            flow.drop()
        gone.reset()

    def _lost(self) -> None:
        if self.client.gone and self.upstream.gone:
            for flow in self._flows:
                flow.stop()
            self._done(self)
