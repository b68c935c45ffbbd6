"""The counting relay passes calls on and knows the size of every message."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from bench.speculating.payload import Relay, Stream, relay
from bench.speculating.sizes import summed
from outrider.channel import CLIENT_OPTIONS
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from tests.fakes import ScriptedDraft, always, block, failing, serving

INFO = common_pb2.ReplicaInfo(protocol_version=1, model_id="scripted", vocab_size=100)
REQUEST = draft_pb2.ProposeRequest(session_id="one", round=3, tokens=[1, 2, 300], max_draft_tokens=2)


@contextlib.asynccontextmanager
async def connected(counting: Relay) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(counting.address, options=CLIENT_OPTIONS) as channel:
        yield draft_pb2_grpc.DraftServiceStub(channel)


async def test_every_message_is_counted_and_none_is_changed() -> None:
    draft = ScriptedDraft(INFO, always(block([7, 8], cached_len=5)))
    async with serving(draft) as address, relay(address) as counting, connected(counting) as stub:
        answer = await stub.GetReplicaInfo(draft_pb2.DraftServiceGetReplicaInfoRequest())
        call = stub.Propose()
        responses = []
        for _ in range(2):
            await call.write(REQUEST)
            responses.append(await call.read())
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
    assert answer.info.model_id == "scripted"
    assert draft.requests == [REQUEST] * 2
    handshake, stream = counting.streams
    assert handshake.method.endswith("/GetReplicaInfo")
    assert stream.requests == [REQUEST.ByteSize()] * 2
    assert stream.responses == [response.ByteSize() for response in responses]


async def test_a_status_of_the_replica_reaches_the_caller() -> None:
    draft = ScriptedDraft(INFO, failing(RuntimeError("broken")))
    async with serving(draft) as address, relay(address) as counting, connected(counting) as stub:
        call = stub.Propose()
        await call.write(REQUEST)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.code() is grpc.StatusCode.INTERNAL


def test_first_messages_carry_the_prompt_and_are_left_out() -> None:
    streams = [Stream("/Verify", [900, 40, 50], [30, 20, 22]), Stream("/Verify", [800], [30])]
    found = summed("k = 2", "target", streams, rounds=2)
    assert (found.requests, found.largest_request, found.responses, found.largest_response) == (45, 50, 21, 22)
