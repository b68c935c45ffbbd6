"""A peer whose bytes are no messages at all raises an error of ours, which the acceptance loop knows how to take."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from opentelemetry.trace import INVALID_SPAN

from orchestrator.clients import draft_facts
from orchestrator.draft_stream import DraftStream
from orchestrator.member import Member, State
from outrider.errors import OutriderError, ProtocolViolation
from tests.unit.test_clients import CLAIM, FACTS, options, way

JUNK = b"\xff\xff\xff\xff"


class JunkHandler(grpc.GenericRpcHandler):
    """Answers every method with bytes that no message has, or with details that are no status."""

    def __init__(self, abort: bool) -> None:
        self._abort = abort

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method.endswith("/Propose"):
            return grpc.stream_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._unary)

    async def _end(self, context: Any) -> None:
        context.set_trailing_metadata((("grpc-status-details-bin", JUNK),))
        await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    async def _unary(self, request: Any, context: Any) -> bytes:
        if self._abort:
            await self._end(context)
        return JUNK

    async def _stream(self, requests: Any, context: Any) -> AsyncIterator[bytes]:
        async for _ in requests:
            if self._abort:
                await self._end(context)
            yield JUNK


@asynccontextmanager
async def junk_peer(abort: bool) -> AsyncGenerator[grpc.aio.Channel, None]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((JunkHandler(abort),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


@pytest.mark.parametrize("abort", [False, True])
async def test_junk_in_a_round_is_an_error_of_ours(abort: bool) -> None:
    async with junk_peer(abort) as channel:
        stream = DraftStream(channel, FACTS, options(timeout=5.0), way())
        with pytest.raises(OutriderError if abort else ProtocolViolation):
            await stream.propose(0, CLAIM, 3, INVALID_SPAN)


@pytest.mark.parametrize("abort", [False, True])
async def test_a_junk_handshake_leaves_the_member_unused_and_to_be_asked_again(abort: bool) -> None:
    async with junk_peer(abort) as channel:
        member = Member("peer:1", draft_facts, lambda facts: "")
        line: Any = SimpleNamespace(channel=channel)
        member.line = line
        await member.handshake()
        assert member.state is State.UNAVAILABLE
        assert member.reason
