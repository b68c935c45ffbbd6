"""The HTTP server, as a task of the process's event loop. The process has its own way to end, so it takes no signals.

It does not know what it serves.
"""

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

_LAST_S = 1.0
"""For answers that are cut off to end."""


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def bind(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of a host, all on one port; 0 picks a free one. Raises OSError that names
    the address."""
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            chosen = sockets[0].getsockname()[1] if sockets else port
            both = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
            sockets.append(socket.create_server((str(address[0]), chosen), family=family, dualstack_ipv6=both))
    except OSError as error:
        for each in sockets:
            each.close()
        raise OSError(f"cannot serve the live page on {host}:{port}: {error.strerror or error}") from error
    return sockets


class WebServer:
    """Serves an application. ``port`` is set by ``start``."""

    def __init__(self, app: ASGIApp, host: str, port: int, most: int = 1024, drain_s: float = 0.0) -> None:
        """``most``: connections at once, further ones are refused with 503; ``drain_s``: for answers to end."""
        self._host = host
        self.port = port
        self._serving: asyncio.Task[None] | None = None
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=most,
                timeout_graceful_shutdown=math.ceil(drain_s),
            )
        )

    @property
    def url(self) -> str:
        """Where the page is."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/ui"

    async def start(self) -> None:
        """Listen and serve. Raises OSError that names the address when it is taken."""
        sockets = bind(self._host, self.port)
        self.port = sockets[0].getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets))
        await self._server.listening.wait()

    async def stop(self) -> None:
        """Refuse new connections, let running answers end within the drain time, then cut them off."""
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
            left = list(self._server.server_state.tasks)
            if left:
                await asyncio.wait(left, timeout=_LAST_S)
