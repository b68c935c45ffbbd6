"""A TCP proxy that stands for the network between two services: delay, jitter, bandwidth, and failures on command.

``python -m bench.proxy --to 127.0.0.1:50052 --delay-ms 5`` prints where it listens and takes commands on its standard
input, one a line: cut, freeze, thaw, half-open client, half-open upstream. A connection is accepted at once: opening
one costs no round trip, every byte on it does. It does not know what the bytes mean.
"""

import argparse
import asyncio
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from types import TracebackType

import uvloop

from bench.relay import Relay
from bench.shape import Shape
from outrider.server import wait_for_signal


class Side(StrEnum):
    """A peer of the proxy."""

    CLIENT = "client"
    UPSTREAM = "upstream"


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "host:port". Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 2**16):
        raise ValueError(f"an address must be host:port, got {text!r}")
    return host.strip("[]"), int(port)


class Proxy:
    """Passes connections on to ``upstream``, both ways shaped alike. Open inside ``async with``; leaving it cuts what
    is left. Failures hit the connections of the moment; new ones are welcome unless it is frozen, then they hang."""

    def __init__(self, upstream: str, shape: Shape | None = None, listen: str = "127.0.0.1:0") -> None:
        self._upstream = parse_address(upstream)
        self._listen = parse_address(listen)
        self._shape = shape or Shape()
        self._accepted = 0
        self._frozen = False
        self._relays: set[Relay] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Proxy":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self._relay().client, *self._listen)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self.cut()
        await self._all_ended.wait()

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    @property
    def connections(self) -> int:
        """Connections that have not ended on both sides."""
        return len(self._relays)

    def cut(self) -> None:
        """Reset every connection, on both sides."""
        for relay in list(self._relays):
            relay.cut()

    def freeze(self) -> None:
        """Nothing passes any more, and nobody is told."""
        self._freeze(True)

    def thaw(self) -> None:
        """What was held goes on, late."""
        self._freeze(False)

    def reshape(self, shape: Shape) -> None:
        """Let the line be another one, for old connections and new ones."""
        self._shape = shape
        for relay in list(self._relays):
            relay.reshape(shape)

    def half_open(self, gone: Side) -> None:
        """The peers on one side see a reset; those on the other believe in their connections until they close them."""
        for relay in list(self._relays):
            relay.half_open(relay.client if gone is Side.CLIENT else relay.upstream)

    def _freeze(self, frozen: bool) -> None:
        self._frozen = frozen
        for relay in list(self._relays):
            relay.freeze(frozen)

    def _relay(self) -> Relay:
        relay = Relay(self._shape, self._accepted, self._opened, self._ended)
        self._accepted += 1
        return relay

    def _opened(self, relay: Relay) -> None:
        self._relays.add(relay)
        self._all_ended.clear()
        relay.freeze(self._frozen)
        task = asyncio.get_running_loop().create_task(self._connect(relay))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _ended(self, relay: Relay) -> None:
        self._relays.discard(relay)
        if not self._relays:
            self._all_ended.set()

    async def _connect(self, relay: Relay) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: relay.upstream, *self._upstream)
        except OSError:
            relay.cut()


def obey(proxy: Proxy, line: str) -> str:
    """Carry out one command; the answer in words."""
    commands: dict[str, Callable[[], None]] = {
        "cut": proxy.cut,
        "freeze": proxy.freeze,
        "thaw": proxy.thaw,
        **{f"half-open {side}": partial(proxy.half_open, side) for side in Side},
    }
    command, connections = commands.get(" ".join(line.split())), proxy.connections
    if command is None:
        return f"unknown command {line.strip()!r}; must be one of {', '.join(commands)}"
    command()
    return f"{' '.join(line.split())}: {connections} connections"


def _listen_to_stdin(proxy: Proxy) -> None:
    """Take commands in a thread, which ends with the process: standard input may be anything, or nothing."""
    loop = asyncio.get_running_loop()

    def answer(line: str) -> None:
        print(obey(proxy, line), flush=True)

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(answer, line)

    threading.Thread(target=read, daemon=True).start()


async def _serve(options: argparse.Namespace) -> None:
    shape = Shape(options.delay_ms / 1000, options.jitter_ms / 1000, options.bytes_per_s, options.seed)
    async with Proxy(options.to, shape, options.listen) as proxy:
        print(f"listening on {proxy.address}", flush=True)
        _listen_to_stdin(proxy)
        await wait_for_signal()


def main() -> int:
    """Run until SIGTERM or Ctrl-C; 2 for options that make no sense."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", default="127.0.0.1:0", help="address; port 0 picks a free one")
    parser.add_argument("--to", required=True, help="address of the service behind it")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of one way; a round trip takes twice that")
    parser.add_argument("--jitter-ms", type=float, default=0.0, help="most that a way may take longer")
    parser.add_argument("--bytes-per-s", type=float, default=0.0, help="of each way; 0 is no limit")
    parser.add_argument("--seed", type=int, default=0, help="of the jitter")
    try:
        uvloop.run(_serve(parser.parse_args()))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
