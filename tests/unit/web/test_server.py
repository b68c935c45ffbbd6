"""The server listens where it is told, takes no signals, and ends within its time whatever its answers do."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.web.server import WebServer, bind

HELLO = PlainTextResponse("hello")


@contextlib.asynccontextmanager
async def serving(app: ASGIApp = HELLO, drain_s: float = 0.0, host: str = "127.0.0.1") -> AsyncIterator[WebServer]:
    server = WebServer(app, host, 0, drain_s=drain_s)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def connect(server: WebServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return reader, writer


async def test_it_listens_once_it_has_started_on_the_port_that_it_names() -> None:
    async with serving() as server:
        reader, writer = await connect(server)
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        assert server.url == f"http://127.0.0.1:{server.port}/ui"
        writer.close()


async def test_the_signals_of_the_process_stay_its_own() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    async with serving():
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


async def test_one_that_has_stopped_takes_no_connection() -> None:
    async with serving() as server:
        pass
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_an_answer_that_does_not_end_is_cut_off_when_the_time_is_over() -> None:
    """Its handler has ended when ``stop`` returns."""
    ended, begun = asyncio.Event(), asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server = WebServer(endless, "127.0.0.1", 0, drain_s=0.0)
    await server.start()
    _, writer = await connect(server)
    await begun.wait()
    began = time.monotonic()
    await server.stop()
    assert ended.is_set()
    assert time.monotonic() - began < 5
    writer.close()


async def test_an_answer_that_ends_in_time_is_told_to_its_end() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await go_on.wait()
        await HELLO(scope, receive, send)

    server = WebServer(slow, "127.0.0.1", 0, drain_s=20.0)
    await server.start()
    reader, writer = await connect(server)
    await begun.wait()
    stopping = asyncio.create_task(server.stop())
    go_on.set()
    assert (await reader.read()).endswith(b"hello")
    await stopping
    writer.close()


async def test_stopping_one_that_never_started_is_nothing() -> None:
    await WebServer(HELLO, "127.0.0.1", 0).stop()


def test_an_address_that_is_taken_or_cannot_be_is_named() -> None:
    (taken,) = bind("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with taken, pytest.raises(OSError, match=rf"cannot serve the live page on 127.0.0.1:{port}: .*in use"):
        bind("127.0.0.1", port)
    with pytest.raises(OSError, match=r"nowhere\.invalid:50080"):
        bind("nowhere.invalid", 50080)


def test_a_name_with_several_addresses_is_served_on_one_port() -> None:
    sockets = bind("localhost", 0)
    try:
        assert len({each.getsockname()[1] for each in sockets}) == 1
    finally:
        for each in sockets:
            each.close()


@pytest.mark.parametrize(("host", "url"), [("::1", "http://[::1]:9/ui"), ("node-7", "http://node-7:9/ui")])
def test_the_address_of_the_page_can_be_clicked_on(host: str, url: str) -> None:
    assert WebServer(HELLO, host, 9).url == url
