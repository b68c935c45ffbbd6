"""The way to one orchestrator: its channel, calls over it, and a new channel when the old one has gone silent.

It knows messages and statuses, not what an answer is.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import grpc

from outrider.channel import CLIENT_OPTIONS
from outrider.client.watch import Watch
from outrider.errors import OutriderError, Unavailable
from outrider.status import from_replica, reason_of
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub

_OPTIONS = [*CLIENT_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]  # or a new channel would have the old connection
_PROBE_S = 5.0
_NOT_CONNECTED = "failed to connect"
Metadata = Sequence[tuple[str, str]]


class CallLost(Exception):
    """A call ended with an error. ``unclear``: its server may have taken the request all the same."""

    def __init__(self, error: OutriderError, unclear: bool) -> None:
        super().__init__(error)
        self.error = error
        self.unclear = unclear


class _Channel:
    """A channel that is closed when it is retired and its last call is over."""

    def __init__(self, address: str) -> None:
        self.grpc = grpc.aio.insecure_channel(address, options=_OPTIONS)
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

    def __init__(self, address: str, metadata: Metadata) -> None:
        self.address = address
        self._metadata = metadata
        self._channel = _Channel(address)

    async def info(self, timeout_s: float) -> pb.GetInfoResponse:
        """What it says of itself and of its replicas. Raises OutriderError."""
        try:
            info: pb.GetInfoResponse = await self._channel.stub.GetInfo(
                pb.GetInfoRequest(), timeout=timeout_s, metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            raise self._lost(error).error from None
        return info

    async def listen(
        self, request: pb.GenerateRequest, timeout_s: float | None, stall_s: float | None
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        """The events of one call. Raises CallLost."""
        channel = self._channel
        channel.calls += 1
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
                channel.retired, self._channel = True, _Channel(self.address)
            await channel.leave()

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
            return CallLost(Unavailable(f"no orchestrator at {self.address}"), unclear=False)
        return CallLost(rebuilt, unclear=True)

    async def close(self) -> None:
        """End its calls."""
        await self._channel.grpc.close()
