"""The bare HTTP client, against a server that cuts its answers anywhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.processes import BenchError
from bench.systems.sse import events, healthy

HOST = "127.0.0.1"
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def server(*pieces: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers everything with these pieces and then hangs up; its port, and what it was asked."""
    asked: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)
        writer.close()

    running = await asyncio.start_server(handle, HOST, 0)
    async with running:
        yield running.sockets[0].getsockname()[1], asked


async def collected(port: int) -> list[object]:
    return [event async for event in events(HOST, port, "/path", {"a": 1})]


async def test_events_come_in_order_until_done() -> None:
    first, rest = chunk(b'data: {"n": 1}\n\n'), chunk(b'data: {"n": 2}\n\ndata: [DONE]\n\n')
    async with server(HEAD, first, rest, b"0\r\n\r\n") as (port, asked):
        assert await collected(port) == [{"n": 1}, {"n": 2}]
    assert asked[0].startswith(b"POST /path HTTP/1.1\r\n")
    assert b"Content-Length: 8\r\n" in asked[0]


async def test_an_event_may_be_cut_anywhere() -> None:
    whole = b'data: {"text": "a b"}\n\n'
    for cut in range(1, len(whole)):
        body = chunk(whole[:cut]) + chunk(whole[cut:])
        async with server(HEAD + body[:7], body[7:], b"0\r\n\r\n") as (port, _):
            assert await collected(port) == [{"text": "a b"}]


async def test_a_refusal_is_an_error_with_the_servers_words() -> None:
    async with server(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", b"too long") as (port, _):
        with pytest.raises(BenchError, match="status 400: too long"):
            await collected(port)


async def test_a_stream_that_breaks_off_is_an_error() -> None:
    async with server(HEAD, chunk(b'data: {"n": 1}\n\n')) as (port, _):
        with pytest.raises(BenchError, match="broke off"):
            await collected(port)


async def test_nobody_there_is_not_healthy() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\n") as (port, asked):
        assert await healthy(HOST, port)
        assert asked[0].startswith(b"GET /health ")
    assert not await healthy(HOST, port)


async def test_an_error_is_not_healthy() -> None:
    async with server(b"HTTP/1.1 503 Later\r\n\r\n") as (port, _):
        assert not await healthy(HOST, port)
