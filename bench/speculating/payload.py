"""A gRPC relay that counts the payload of every message on its way; it does not know what the messages are.

It stands between an orchestrator and a replica and passes calls on as they are. For sizes, not for speed.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from outrider.channel import CLIENT_OPTIONS, SERVER_OPTIONS

_GRACE_S = 1.0


@dataclass(slots=True)
class Stream:
    """Sizes of the messages of one call, in order."""

    method: str
    requests: list[int] = field(default_factory=list)
    responses: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Relay(grpc.GenericRpcHandler):
    """Calls to a replica. Every method is served as a stream, which a call of single messages looks like too."""

    channel: grpc.aio.Channel
    streams: list[Stream] = field(default_factory=list)
    address: str = ""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """A handler of any method."""
        method: Any = handler_call_details.method

        async def passed_on(requests: Any, context: Any) -> AsyncIterator[bytes]:
            async for response in self._pass_on(method, requests, context):
                yield response

        return grpc.stream_stream_rpc_method_handler(passed_on)

    async def _pass_on(self, method: str, requests: Any, context: Any) -> AsyncIterator[bytes]:
        stream = Stream(method)
        self.streams.append(stream)
        call: Any = self.channel.stream_stream(method)(_counted(requests, stream.requests))
        try:
            async for response in _counted(call, stream.responses):
                yield response
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
        finally:
            call.cancel()


async def _counted(messages: Any, sizes: list[int]) -> AsyncIterator[Any]:
    async for message in messages:
        sizes.append(len(message))
        yield message


@asynccontextmanager
async def relay(upstream: str) -> AsyncGenerator[Relay, None]:
    """A relay to an address, at an address of its own."""
    async with grpc.aio.insecure_channel(upstream, options=CLIENT_OPTIONS) as channel:
        counting = Relay(channel)
        server = grpc.aio.server(options=SERVER_OPTIONS)
        server.add_generic_rpc_handlers((counting,))
        counting.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            yield counting
        finally:
            await server.stop(_GRACE_S)
