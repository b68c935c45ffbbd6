"""Bytes through the proxy: in order, complete, never early; and each failure looks to both peers as it should.

Everything runs on asyncio's own loop and on uvloop. A silence is given 50 ms to be broken: a proxy that keeps it
passes however slow the machine is.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import flow
from bench.alarm import Alarm
from bench.proxy import Proxy, Side, obey, parse_address
from bench.shape import Shape
from tests.waiting import eventually

Run = Callable[[Coroutine[Any, Any, None]], None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SILENCE_S = 0.05


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """A fresh loop of each kind."""
    chosen: Run = request.param
    return chosen


class Server:
    """Keeps the streams of every connection, so that a test can be the server."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Streams] = asyncio.Queue()
        self.address = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.put_nowait((reader, writer))


@contextlib.asynccontextmanager
async def through(shape: Shape | None = None) -> AsyncIterator[tuple[Server, Proxy]]:
    server = Server()
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        async with Proxy(server.address, shape) as proxy:
            yield server, proxy
        assert proxy.connections == 0
    finally:
        listening.close()


async def connected(server: Server, proxy: Proxy) -> tuple[Streams, Streams]:
    """A client's streams and those of the server at the other end."""
    client = await asyncio.open_connection(*parse_address(proxy.address))
    return client, await server.accepted.get()


async def silent(reading: Awaitable[bytes]) -> bool:
    """Whether nothing comes, not even an end."""
    try:
        await asyncio.wait_for(reading, SILENCE_S)
    except TimeoutError:
        return True
    return False


async def is_reset(reader: asyncio.StreamReader) -> bool:
    try:
        await reader.read()
    except ConnectionResetError:
        return True
    return False


async def ended(proxy: Proxy) -> None:
    """Wait until no connection is left."""
    await eventually(lambda: not proxy.connections, "all connections have ended")


async def echo(streams: Streams) -> None:
    reader, writer = streams
    while data := await reader.read(70_000):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def send(writer: asyncio.StreamWriter, pieces: list[bytes]) -> None:
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    writer.write_eof()


SHAPES = st.builds(
    Shape,
    delay_s=st.sampled_from([0.0, 0.0003, 0.004]),
    jitter_s=st.sampled_from([0.0, 0.003]),
    bytes_per_s=st.sampled_from([0.0, 3e6, 2e8]),
    seed=st.integers(0, 9),
)


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@given(shape=SHAPES, sizes=st.lists(st.integers(1, 100_000), max_size=8))
@settings(max_examples=25)
def test_bytes_arrive_complete_and_in_order_in_any_shape(runner: Run, shape: Shape, sizes: list[int]) -> None:
    pieces = [random.Random(number).randbytes(size) for number, size in enumerate(sizes)]

    async def work() -> None:
        async with through(shape) as (server, proxy):
            (reader, writer), far = await connected(server, proxy)
            _, _, back = await asyncio.gather(send(writer, pieces), echo(far), reader.read())
            assert back == b"".join(pieces)
            await ended(proxy)

    runner(work())


def test_a_byte_takes_at_least_the_delay_each_way_at_any_time(run: Run) -> None:
    async def work() -> None:
        async with through(Shape(delay_s=0.0073, jitter_s=0.001)) as (server, proxy):
            (reader, writer), (far_reader, far_writer) = await connected(server, proxy)
            for _ in range(20):
                began = time.monotonic()
                writer.write(b"x")
                await far_reader.readexactly(1)
                there = time.monotonic()
                far_writer.write(b"y")
                await reader.readexactly(1)
                assert there - began >= 0.0073
                assert time.monotonic() - there >= 0.0073

    run(work())


def test_a_line_can_become_another_one_and_keeps_the_order(run: Run) -> None:
    async def work() -> None:
        async with through() as (server, proxy):
            (_, writer), (far_reader, _) = await connected(server, proxy)
            proxy.reshape(Shape(delay_s=0.02))
            began = time.monotonic()
            writer.write(b"a")
            await eventually(lambda: any(relay.client.out._pieces for relay in proxy._relays), "it is on its way")
            proxy.reshape(Shape())
            writer.write(b"b")
            assert await far_reader.readexactly(2) == b"ab"
            assert time.monotonic() - began >= 0.02
            proxy.reshape(Shape(delay_s=0.0073))
            (_, late), (far_late, _) = await connected(server, proxy)
            began = time.monotonic()
            late.write(b"c")
            await far_late.readexactly(1)
            assert time.monotonic() - began >= 0.0073, "new connections have it too"

    run(work())


def test_a_limited_line_takes_at_least_as_long_as_the_bytes_need(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it sends them bit by bit."""
    sizes: list[int] = []
    write = flow.Flow._write

    def watched(self: flow.Flow, data: bytes) -> None:
        sizes.append(len(data))
        write(self, data)

    monkeypatch.setattr(flow.Flow, "_write", watched)

    async def work() -> None:
        async with through(Shape(bytes_per_s=2e6)) as (server, proxy):
            (_, writer), (far_reader, _) = await connected(server, proxy)
            began = time.monotonic()
            writer.write(bytes(100_000))
            await far_reader.readexactly(100_000)
            assert time.monotonic() - began >= 0.05

    run(work())
    assert (sum(sizes), max(sizes)) == (100_000, 1500)


def test_connections_are_many_and_apart(run: Run) -> None:
    async def one(server: Server, proxy: Proxy, number: int) -> None:
        reader, writer = await asyncio.open_connection(*parse_address(proxy.address))
        payload = random.Random(number).randbytes(20_000)
        _, back = await asyncio.gather(send(writer, [payload]), reader.read())
        assert back == payload

    async def work() -> None:
        async with through(Shape(delay_s=0.001, jitter_s=0.001)) as (server, proxy):
            clients = [asyncio.create_task(one(server, proxy, number)) for number in range(20)]
            servers = [asyncio.create_task(echo(await server.accepted.get())) for _ in range(20)]
            await asyncio.gather(*clients, *servers)
            await ended(proxy)

    run(work())


def test_a_reader_that_is_slow_makes_the_sender_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy holds a window and what was read with it, not everything that is sent."""
    monkeypatch.setattr(flow, "WINDOW_BYTES", 1 << 16)
    most = 0
    take = flow.Flow.take

    def watched(self: flow.Flow, data: bytes) -> None:
        nonlocal most
        take(self, data)
        most = max(most, self._bytes)

    monkeypatch.setattr(flow.Flow, "take", watched)

    async def work() -> None:
        async with through(Shape(delay_s=0.001)) as (server, proxy):
            (_, writer), (far_reader, _) = await connected(server, proxy)
            payload = random.Random(1).randbytes(30 << 20)
            sending = asyncio.create_task(send(writer, [payload]))
            await eventually(lambda: most >= 1 << 16, "the window has filled")
            assert await far_reader.read() == payload
            await sending
            assert 1 << 16 <= most <= (1 << 16) + (1 << 18), "the window and one read"

    run(work())


def test_one_side_may_end_and_still_receive(run: Run) -> None:
    async def work() -> None:
        async with through(Shape(delay_s=0.002)) as (server, proxy):
            (reader, writer), (far_reader, far_writer) = await connected(server, proxy)
            await send(writer, [b"question"])
            assert await far_reader.read() == b"question"
            assert await silent(reader.read(1))
            await send(far_writer, [b"answer"])
            assert await reader.read() == b"answer"
            await ended(proxy)

    run(work())


@pytest.mark.parametrize("who", [0, 1])
def test_a_reset_is_passed_on(run: Run, who: int) -> None:
    async def work() -> None:
        async with through() as (server, proxy):
            ends = await connected(server, proxy)
            await ends[who][1].drain()
            sock = ends[who][1].get_extra_info("socket")
            sock.setsockopt(1, 13, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            ends[who][1].transport.abort()
            assert await is_reset(ends[1 - who][0])
            await ended(proxy)

    run(work())


def test_a_server_that_is_away_resets_the_client(run: Run) -> None:
    async def work() -> None:
        async with through() as (server, _):
            pass
        async with Proxy(server.address) as proxy:
            reader, _ = await asyncio.open_connection(*parse_address(proxy.address))
            assert await is_reset(reader)
            await ended(proxy)

    run(work())


def test_a_cut_resets_both_sides_and_new_connections_work(run: Run) -> None:
    async def work() -> None:
        async with through(Shape(delay_s=0.001)) as (server, proxy):
            (reader, writer), (far_reader, _) = await connected(server, proxy)
            writer.write(b"lost")
            proxy.cut()
            assert await is_reset(reader)
            assert await is_reset(far_reader)
            await ended(proxy)
            (_, writer), (far_reader, _) = await connected(server, proxy)
            writer.write(b"fresh")
            assert await far_reader.readexactly(5) == b"fresh"

    run(work())


def test_frozen_bytes_and_ends_arrive_after_the_thaw(run: Run) -> None:
    async def work() -> None:
        async with through() as (server, proxy):
            (reader, writer), (far_reader, far_writer) = await connected(server, proxy)
            proxy.freeze()
            await send(writer, [b"held"])
            far_writer.write(b"too")
            assert await silent(far_reader.read(1))
            assert await silent(reader.read(1))
            late, late_writer = await asyncio.open_connection(*parse_address(proxy.address))
            late_writer.write(b"late")
            assert await silent(late.read(1))
            proxy.thaw()
            assert await far_reader.read() == b"held"
            assert await reader.readexactly(3) == b"too"
            late_reader, late_far_writer = await server.accepted.get()
            assert await late_reader.readexactly(4) == b"late"
            for one in (late_writer, late_far_writer, far_writer):
                one.close()
            await ended(proxy)

    run(work())


@pytest.mark.parametrize("gone", list(Side))
def test_half_open_tells_one_side_only(run: Run, gone: Side) -> None:
    async def work() -> None:
        async with through() as (server, proxy):
            ends = await connected(server, proxy)
            (told, _), (left, writer) = ends if gone is Side.CLIENT else reversed(ends)
            proxy.half_open(gone)
            assert await is_reset(told)
            writer.write(b"into the void")
            await writer.drain()
            assert await silent(left.read(1))
            assert proxy.connections == 1
            writer.close()
            await ended(proxy)

    run(work())


def test_leaving_cuts_what_is_left(run: Run) -> None:
    async def work() -> None:
        async with through(Shape(delay_s=9.0)) as (server, proxy):
            (reader, writer), (far_reader, _) = await connected(server, proxy)
            writer.write(b"never")
        assert await is_reset(reader)
        assert await is_reset(far_reader)

    run(work())


def test_commands_are_carried_out_or_refused_with_what_is_allowed(run: Run) -> None:
    async def work() -> None:
        async with through() as (server, proxy):
            (reader, _), far = await connected(server, proxy)
            assert obey(proxy, "freeze\n") == "freeze: 1 connections"
            assert obey(proxy, "thaw") == "thaw: 1 connections"
            allowed = "must be one of cut, freeze, thaw, half-open client, half-open upstream"
            assert obey(proxy, "melt\n") == f"unknown command 'melt'; {allowed}"
            assert obey(proxy, " half-open  client \n") == "half-open client: 1 connections"
            assert await is_reset(reader)
            assert obey(proxy, "cut") == "cut: 1 connections"
            assert await is_reset(far[0])
            await ended(proxy)

    run(work())


def test_an_alarm_never_rings_early_and_only_for_its_last_setting(run: Run) -> None:
    async def work() -> None:
        rung: asyncio.Queue[float] = asyncio.Queue()
        alarm = Alarm(lambda: rung.put_nowait(time.monotonic()))
        for pause in (0.0, 0.0002, 0.0031, -1.0):
            when = time.monotonic() + pause
            alarm.set(when + 60)
            alarm.set(when)
            assert await rung.get() >= when
        alarm.close()
        alarm.close()
        assert rung.empty()

    run(work())


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:x", "host:65536", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"an address must be host:port, got {text!r}"):
        parse_address(text)


def test_addresses_are_read() -> None:
    assert parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_address("[::1]:8080") == ("::1", 8080)


async def test_the_command_line_serves_obeys_and_ends_on_sigterm() -> None:
    server = Server()
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    upstream = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "bench.proxy", "--to", upstream, "--delay-ms", "3"]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().removeprefix("listening on ").strip()
        reader, writer = await asyncio.open_connection(*parse_address(address))
        far_reader, _ = await server.accepted.get()
        began = time.monotonic()
        writer.write(b"x")
        assert await far_reader.readexactly(1) == b"x"
        assert time.monotonic() - began >= 0.003
        process.stdin.write(b"cut\n")
        assert await process.stdout.readline() == b"cut: 1 connections\n"
        assert await is_reset(reader)
        process.terminate()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        listening.close()


async def test_the_command_line_refuses_what_makes_no_sense() -> None:
    command = [sys.executable, "-m", "bench.proxy", "--to", "here", "--delay-ms", "3"]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, words = await process.communicate()
    assert (process.returncode, words) == (2, b"error: an address must be host:port, got 'here'\n")
