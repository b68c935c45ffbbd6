"""Callers that hold on to something and say nothing, or say too much: they are let go, and nobody else notices."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from outrider import channel, health, incoming, interceptor
from outrider import server as serving
from outrider.cli.ports import free_port
from outrider.credentials import Dialer, server_credentials
from outrider.server import Server
from outrider.tls import TlsFiles
from outrider.v1 import target_pb2, target_pb2_grpc
from target_service.service import NAME
from tests.certificates import Authority

PLACES = 8


class Facts(target_pb2_grpc.TargetServiceServicer):
    """Answers at once, and waits for messages of streams."""

    async def GetReplicaInfo(self, request: Any, context: Any) -> target_pb2.TargetServiceGetReplicaInfoResponse:
        """Names the connection that it came over."""
        return target_pb2.TargetServiceGetReplicaInfoResponse(info={"model_id": context.peer()})

    async def Release(self, request: Any, context: Any) -> target_pb2.TargetServiceReleaseResponse:
        return target_pb2.TargetServiceReleaseResponse()

    async def Verify(self, requests: Any, context: Any) -> AsyncIterator[target_pb2.VerifyResponse]:
        async for _ in requests:
            yield target_pb2.VerifyResponse()


@contextlib.asynccontextmanager
async def served(tls: TlsFiles | None = None) -> AsyncIterator[Server]:
    """A server with few places."""
    credentials = server_credentials(tls, need_certificate=True) if tls else None
    server = Server("127.0.0.1:0", [NAME], max_streams=PLACES, drain_s=0.0, credentials=credentials)
    target_pb2_grpc.add_TargetServiceServicer_to_server(Facts(), server.grpc_server)
    await server.start()
    try:
        yield server
    finally:
        await server.drain()


async def asks(opened: grpc.aio.Channel) -> None:
    """A short call, which must be answered."""
    stub: Any = target_pb2_grpc.TargetServiceStub(opened)
    await stub.GetReplicaInfo(target_pb2.TargetServiceGetReplicaInfoRequest(), timeout=10, wait_for_ready=True)


@pytest.mark.parametrize("hello", [b"", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01"])
@pytest.mark.parametrize("with_tls", [False, True])
async def test_a_connection_that_does_not_greet_is_closed(
    hello: bytes, with_tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = dict(channel.SERVER_OPTIONS)
    assert "grpc.server_handshake_timeout_ms" in options
    quick = list((options | {"grpc.server_handshake_timeout_ms": 300}).items())
    monkeypatch.setattr(serving, "SERVER_OPTIONS", quick)
    files = TlsFiles(Authority.new().write(tmp_path, "outrider-target")) if with_tls else None
    async with served(files) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(hello)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                while await reader.read(4096):
                    pass
        writer.close()
        async with Dialer(files, "outrider-target").open(f"127.0.0.1:{server.port}", channel.CLIENT_OPTIONS) as opened:
            await asks(opened)


async def test_streams_that_say_nothing_hold_their_places_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "FIRST_MESSAGE_S", 0.3)
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        stub: Any = target_pb2_grpc.TargetServiceStub(opened)
        silent = [stub.Verify() for _ in range(PLACES)]
        codes = [await call.code() for call in silent]
        assert codes == [grpc.StatusCode.DEADLINE_EXCEEDED] * PLACES
        assert "first message" in str(await silent[0].details())
        await asks(opened)


async def test_what_is_too_large_is_refused_and_nothing_else() -> None:
    """A message beyond the limit, and metadata beyond gRPC's."""
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        stub: Any = target_pb2_grpc.TargetServiceStub(opened)
        call = stub.Verify()
        await call.write(target_pb2.VerifyRequest(tokens=[2**31] * (channel.MAX_MESSAGE_BYTES // 5 + 1)))
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            request = target_pb2.TargetServiceGetReplicaInfoRequest()
            await stub.GetReplicaInfo(request, timeout=10, metadata=(("x-large", "x" * 100_000),))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await asks(opened)


async def test_a_health_port_that_is_taken_is_named_and_nothing_is_left_open() -> None:
    async with served() as server:
        taken = f"127.0.0.1:{server.port}"
        other = Server("127.0.0.1:0", [NAME], health_listen=taken)
        with pytest.raises(OSError, match=f"OUTRIDER_HEALTH={taken}: cannot listen"):
            await other.start()


async def test_who_only_watches_or_asks_what_there_is_takes_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both last as long as the caller likes, and need no key."""
    reflecting = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    assert set(serving._PLACES) == {health.WATCH, reflecting}
    monkeypatch.setattr(serving, "_PLACES", {health.WATCH: 2, reflecting: 2})
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        asked = ServerReflectionRequest(list_services="")
        seen = [ServerReflectionStub(opened).ServerReflectionInfo() for _ in range(2)]
        for each in seen:
            await each.write(asked)
            assert (await each.read()).list_services_response.service
        watched = [HealthStub(opened).Watch(HealthCheckRequest()) for _ in range(2)]
        assert [(await each.read()).status for each in watched] == [HealthCheckResponse.NOT_SERVING] * 2
        for more in (
            ServerReflectionStub(opened).ServerReflectionInfo(),
            HealthStub(opened).Watch(HealthCheckRequest()),
        ):
            assert await more.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await asks(opened)
        watched.pop().cancel()
        await server.set_serving(True)
        assert (await watched[0].read()).status == HealthCheckResponse.SERVING, (
            "the other one that left changes nothing"
        )


async def test_reflection_and_watching_that_say_nothing_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "FIRST_MESSAGE_S", 0.3)
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        silent = [ServerReflectionStub(opened).ServerReflectionInfo() for _ in range(PLACES)]
        assert [await call.code() for call in silent] == [grpc.StatusCode.DEADLINE_EXCEEDED] * PLACES
        await asks(opened)


async def test_a_drain_does_not_wait_for_who_only_watches() -> None:
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        server.drain_s = 600.0
        await server.set_serving(True)
        watching = HealthStub(opened).Watch(HealthCheckRequest())
        assert (await watching.read()).status == HealthCheckResponse.SERVING
        async with asyncio.timeout(30):
            await server.drain()
        assert (await watching.read()).status == HealthCheckResponse.NOT_SERVING, "it hears of the drain"
        assert await watching.code() is grpc.StatusCode.OK


async def test_the_clear_port_answers_checks_and_nothing_that_lasts() -> None:
    free = free_port("127.0.0.1")
    server = Server("127.0.0.1:0", [NAME], health_listen=f"127.0.0.1:{free}", drain_s=0.0)
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{free}") as opened:
        assert await HealthStub(opened).Watch(HealthCheckRequest()).code() is grpc.StatusCode.UNIMPLEMENTED
        for service, status in (("", HealthCheckResponse.SERVING), (NAME, HealthCheckResponse.NOT_SERVING)):
            assert (await HealthStub(opened).Check(HealthCheckRequest(service=service), timeout=10)).status == status
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await HealthStub(opened).Check(HealthCheckRequest(service="nobody"), timeout=10)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert NAME in str(caught.value.details())
    await server.drain()


async def test_connections_end_and_calls_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers connect anew by themselves: whoever is let in no more is out within the age and its grace."""
    ages = {"grpc.max_connection_age_ms", "grpc.max_connection_age_grace_ms"}
    options = dict(channel.SERVER_OPTIONS)
    assert ages <= set(options)
    quick = list((options | {"grpc.max_connection_age_ms": 200}).items())
    monkeypatch.setattr(serving, "SERVER_OPTIONS", quick)
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        stub: Any = target_pb2_grpc.TargetServiceStub(opened)
        peers: set[str] = set()
        stream = stub.Verify()
        async with asyncio.timeout(60):
            while len(peers) < 3:
                call = stub.GetReplicaInfo(target_pb2.TargetServiceGetReplicaInfoRequest(), timeout=10)
                peers.add((await call).info.model_id)
                await stream.write(target_pb2.VerifyRequest())
                await stream.read()


async def test_those_that_only_watch_leave_all_the_places_to_others() -> None:
    """As many as are let in, beside as many calls as the server takes."""
    most = serving._PLACES[health.WATCH]
    assert most > PLACES
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        watched = [HealthStub(opened).Watch(HealthCheckRequest()) for _ in range(most)]
        for each in watched:
            await each.read()
        stub: Any = target_pb2_grpc.TargetServiceStub(opened)
        streams = [stub.Verify() for _ in range(PLACES)]
        for stream in streams:
            await stream.write(target_pb2.VerifyRequest())
            await stream.read()
        assert await stub.Verify().code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        streams[0].cancel()
        await asks(opened)


async def test_a_reflection_that_goes_quiet_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain would wait for it."""
    monkeypatch.setattr(interceptor, "_QUIET_S", 0.3)
    async with served() as server, grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as opened:
        asking = ServerReflectionStub(opened).ServerReflectionInfo()
        for _ in range(2):
            await asking.write(ServerReflectionRequest(list_services=""))
            await asking.read()
        assert await asking.code() is grpc.StatusCode.OK
