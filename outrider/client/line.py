"""The way to one orchestrator: its channel, calls over it, and a new channel when the old one has gone silent.

It knows messages and statuses, not what an answer is.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc

from outrider.channel import CLIENT_OPTIONS
from outrider.client.watch import Watch
from outrider.credentials import PLAIN, Dialer
from outrider.errors import OutriderError, Unavailable
from outrider.status import from_replica, reason_of
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub

_MOST_BYTES = "grpc.max_receive_message_length"
_OPTIONS = [
    *(option for option in CLIENT_OPTIONS if option[0] != _MOST_BYTES),
    (_MOST_BYTES, 128 * 1024 * 1024),  # the trace of a long answer: each round has some kilobytes
    ("grpc.use_local_subchannel_pool", 1),  # or a new channel would have the old connection
]
_PROBE_S = 5.0
_NOT_CONNECTED = "failed to connect"
Metadata = Sequence[tuple[str, str]]


def _why_not(address: str, message: str) -> str:
    """What gRPC says of a connection that did not come about, for people."""
    found = message.lower()
    if "certificate has expired" in found:
        return f"{address} shows a certificate that has expired"
    if "handshake failed" in found or "verification check failed" in found:
        return f"{address} shows a certificate that OUTRIDER_TLS_CA did not sign, or of another name: {message}"
    if "socket closed" in found:
        return f"{address} hangs up: does it want TLS, or another certificate (OUTRIDER_TLS_CA, _CERT, _KEY)?"
    return f"no orchestrator at {address}"


class CallLost(Exception):
    """A call ended with an error. ``unclear``: its server may have taken the request all the same."""

    def __init__(self, error: OutriderError, unclear: bool) -> None:
        super().__init__(error)
        self.error = error
        self.unclear = unclear


class _Channel:
    """A channel that is closed when it is retired and its last call is over."""

    def __init__(self, address: str, dialer: Dialer) -> None:
        self.version = dialer.version
        self.grpc = dialer.open(address, _OPTIONS)
        self.stub: Any = OrchestratorServiceStub(self.grpc)
        self.calls = 0
        self.retired = False

    async def leave(self) -> None:
        """A call is over."""
        self.calls -= 1
        if self.retired and not self.calls:
            await self.grpc.close()


class Line:
    """Calls to the orchestrator at ``address``."""

    def __init__(self, address: str, metadata: Metadata, dialer: Dialer = PLAIN) -> None:
        self.address = address
        self._metadata = metadata
        self._dialer = dialer
        self._channel = _Channel(address, dialer)

    async def info(self, timeout_s: float) -> pb.GetInfoResponse:
        """What it says of itself and of its replicas. Raises OutriderError."""
        info: pb.GetInfoResponse = await self._call("GetInfo", pb.GetInfoRequest(), timeout_s)
        return info

    async def requests(self, tenant: str, timeout_s: float) -> pb.ListRequestsResponse:
        """The last requests that it remembers of a tenant. Raises OutriderError."""
        request = pb.ListRequestsRequest(tenant=tenant)
        listed: pb.ListRequestsResponse = await self._call("ListRequests", request, timeout_s)
        return listed

    async def trace(self, name: str, tenant: str, timeout_s: float) -> pb.GetTraceResponse:
        """The spans of the request that has this session or trace id. Raises OutriderError."""
        trace: pb.GetTraceResponse = await self._call("GetTrace", pb.GetTraceRequest(id=name, tenant=tenant), timeout_s)
        return trace

    async def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        try:
            async with self._used() as channel:
                return await getattr(channel.stub, method)(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise self._lost(error).error from None

    @asynccontextmanager
    async def _used(self) -> AsyncGenerator[_Channel, None]:
        """The channel for one call; a new one when certificates have changed."""
        if self._channel.version != self._dialer.version:
            await self._renew()
        channel = self._channel
        channel.calls += 1
        try:
            yield channel
        finally:
            await channel.leave()

    async def _renew(self) -> None:
        """Further calls have a new channel; the old one is closed when its calls are over."""
        former, self._channel = self._channel, _Channel(self.address, self._dialer)
        former.retired = True
        if not former.calls:
            await former.grpc.close()

    async def listen(
        self, request: pb.GenerateRequest, timeout_s: float | None, stall_s: float | None
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        """The events of one call. Raises CallLost."""
        async with self._used() as channel:
            call = channel.stub.Generate(request, timeout=timeout_s, metadata=self._metadata)
            watch = Watch(call, lambda: self._alive(channel, min(_PROBE_S, stall_s or _PROBE_S)), stall_s)
            try:
                async with aclosing(watch.events()) as events:
                    async for event in events:
                        yield event
            except grpc.aio.AioRpcError as error:
                raise self._lost(error) from None
            except Unavailable as error:
                raise CallLost(error, unclear=True) from None
            finally:
                call.cancel()
                if watch.stalled and channel is self._channel:
                    await self._renew()

    async def _alive(self, channel: _Channel, within_s: float) -> bool:
        """Whether it answers anything over a channel. One that drains refuses new calls, which is an answer."""
        try:
            await channel.stub.GetInfo(pb.GetInfoRequest(), timeout=within_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            return error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
        return True

    def _lost(self, error: grpc.aio.AioRpcError) -> CallLost:
        """With a reason of ours it was not taken, nor when there was no connection."""
        rebuilt = from_replica(error)
        if not isinstance(rebuilt, Unavailable) or reason_of(error):
            return CallLost(rebuilt, unclear=False)
        if _NOT_CONNECTED in rebuilt.message.lower():
            return CallLost(Unavailable(_why_not(self.address, rebuilt.message)), unclear=False)
        return CallLost(rebuilt, unclear=True)

    async def close(self) -> None:
        """End its calls."""
        await self._channel.grpc.close()
