"""Looking ahead over real sockets: continuations are the draft's own blocks, the next message ends it."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.tokens import TokenLog
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from tests.integration.prompts import prompt_of
from tests.stack import Farm, ReplicaServer
from tests.waiting import eventually

COUNT = 4
PROMPT = prompt_of(40)
SETTINGS: tuple[dict[str, Any], ...] = ({"temperature": 0.0}, {"temperature": 0.9, "top_k": 40})


@pytest.fixture
async def server(farm: Farm, good_draft: Path) -> ReplicaServer:
    return await farm.replica("draft", good_draft)


@pytest.fixture
async def stub(server: ReplicaServer) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield draft_pb2_grpc.DraftServiceStub(channel)


class Caller:
    """One session's stream, message by message."""

    def __init__(self, stub: Any, session_id: str, first: int = 0, **sampling: Any) -> None:
        """``first`` is the round that the stream begins with."""
        self._stub = stub
        self.session_id = session_id
        self._sampling = common_pb2.SamplingParams(seed=5, **sampling)
        self.call = stub.Propose(timeout=30)
        self._round = first

    async def send(self, path: Sequence[int], prefix_len: int = 0, count: int = COUNT, **fields: Any) -> int:
        """Send a message; returns its round."""
        digest = TokenLog(path).digest(prefix_len)
        request = draft_pb2.ProposeRequest(
            session_id=self.session_id, round=self._round, prefix_len=prefix_len, prefix_digest=digest,
            tokens=path[prefix_len:], max_draft_tokens=count, sampling=self._sampling, **fields,
        )  # fmt: skip
        await self.call.write(request)
        self._round += 1
        return request.round

    async def propose(self, path: Sequence[int], prefix_len: int = 0, count: int = COUNT) -> draft_pb2.ProposeResponse:
        number = await self.send(path, prefix_len, count)
        response: draft_pb2.ProposeResponse = await self.call.read()
        assert (response.round, response.WhichOneof("outcome")) == (number, "block")
        return response

    async def look_ahead(
        self, path: Sequence[int], block: Sequence[int], fanout: Sequence[int], count: int = COUNT
    ) -> dict[tuple[int, int], list[int]]:
        """Continuations by outcome."""
        message = draft_pb2.LookAhead(draft_tokens=block, fanout=fanout)
        number = await self.send(path, len(path) - 1, count, look_ahead=message)
        response = await self.call.read()
        assert (response.round, response.WhichOneof("outcome")) == (number, "continuations")
        assert response.timings.passes == count + 1
        found = response.continuations.continuations
        return {(each.num_accepted, each.next_token): list(each.tokens) for each in found}

    async def close(self) -> None:
        """End the stream and release the session."""
        await self.call.done_writing()
        assert await self.call.read() is grpc.aio.EOF
        await self.release()

    async def release(self) -> None:
        wish = common_pb2.ReleaseRequest(session_id=self.session_id)
        await self._stub.Release(draft_pb2.DraftServiceReleaseRequest(release=wish), timeout=5)


async def gone(server: ReplicaServer) -> None:
    """Nothing is held any more, and the counts of blocks add up."""
    await eventually(server.idle, "nothing is left")
    await server.check()


@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_continuations_are_the_blocks_that_a_fresh_session_proposes(
    farm: Farm, good_draft: Path, sampling: dict[str, Any], dtype: str
) -> None:
    """Several rounds that hit, over block borders: each continuation, and each block that is adopted."""
    server = await farm.replica("draft", good_draft, dtype)
    async with grpc.aio.insecure_channel(server.address) as channel:
        await follow_hits(draft_pb2_grpc.DraftServiceStub(channel), sampling)
    await gone(server)


async def follow_hits(stub: Any, sampling: dict[str, Any]) -> None:
    """Six rounds of one session in which the verdict is one that was prepared for, and a proposal at the end."""
    caller = Caller(stub, "ahead", **sampling)
    path = list(PROMPT)
    block = list((await caller.propose(path)).block.tokens)
    for number in range(6):
        found = await caller.look_ahead(path, block, [2, 1, 0, 1, 3])
        assert sorted(accepted for accepted, _ in found) == [0, 0, 1, 3, 4, 4, 4]
        for (accepted, token), tokens in found.items():
            fresh = Caller(stub, "fresh", **sampling)
            after = [*path, *block[:accepted], token]
            assert tokens == list((await fresh.propose(after)).block.tokens)
            await fresh.close()
        accepted, token = sorted(found)[number]
        path, block = [*path, *block[:accepted], token], found[accepted, token]
    adopted = await caller.propose(path, len(PROMPT))
    assert (list(adopted.block.tokens), adopted.timings.passes) == (block, 0)
    await caller.close()


async def test_the_next_message_ends_a_look_ahead(server: ReplicaServer, stub: Any) -> None:
    """It is answered at once, or after the continuations when they were ready; never twice, never out of order."""
    fresh, caller = Caller(stub, "fresh"), Caller(stub, "ahead")
    block = list((await caller.propose(PROMPT)).block.tokens)
    path = [*PROMPT, *block[:2], 7]
    expected = list((await fresh.propose(path)).block.tokens)
    for _ in range(20):
        message = draft_pb2.LookAhead(draft_tokens=block, fanout=[12, 13, 13, 13, 13])
        await caller.send(PROMPT, len(PROMPT) - 1, 16, look_ahead=message)
        number = await caller.send(path, len(PROMPT))
        response = await caller.call.read()
        if response.WhichOneof("outcome") == "continuations":
            response = await caller.call.read()
        assert (response.round, list(response.block.tokens)) == (number, expected)
    await caller.close()
    await fresh.close()
    await gone(server)


async def test_looking_ahead_for_ever_and_never_reading_is_no_trouble(server: ReplicaServer, stub: Any) -> None:
    caller = Caller(stub, "ahead")
    block = list((await caller.propose(PROMPT)).block.tokens)
    for _ in range(50):
        message = draft_pb2.LookAhead(draft_tokens=block, fanout=[1, 1, 1, 1, 1])
        await caller.send(PROMPT, len(PROMPT) - 1, 16, look_ahead=message)
    number = await caller.send(PROMPT, len(PROMPT) - 1)
    while (response := await caller.call.read()).round != number:
        assert response.WhichOneof("outcome") == "continuations"
    assert list(response.block.tokens) == block
    await caller.close()
    await gone(server)


async def test_a_caller_that_says_no_more_still_gets_its_continuations(server: ReplicaServer, stub: Any) -> None:
    caller = Caller(stub, "ahead")
    await caller.send(PROMPT, look_ahead=draft_pb2.LookAhead(draft_tokens=[5], fanout=[1, 2]))
    await caller.call.done_writing()
    response = await caller.call.read()
    assert len(response.continuations.continuations) == 3
    assert await caller.call.read() is grpc.aio.EOF
    await caller.release()
    await gone(server)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancelled_stream_frees_what_it_prepared(server: ReplicaServer, stub: Any, begun: bool) -> None:
    """At once or in the middle: only the main line stays until it is released."""
    engine = server.replica.engine
    for number in range(10):
        caller = Caller(stub, f"ahead {number}")
        block = list((await caller.propose(PROMPT)).block.tokens)
        message = draft_pb2.LookAhead(draft_tokens=block, fanout=[12, 13, 13, 13, 13])
        await caller.send(PROMPT, len(PROMPT) - 1, 16, look_ahead=message)
        if begun:
            await eventually(lambda: engine.load().pending_rounds, "it has begun")
        caller.call.cancel()
        await eventually(lambda: engine.idle, "it has ended")
        assert await server.replica.batcher.call(engine.sessions.branches) == []
        await caller.release()
    await gone(server)


async def test_a_prefix_that_is_not_there_is_a_miss(server: ReplicaServer, stub: Any) -> None:
    caller = Caller(stub, "ahead")
    await caller.send(PROMPT, 9, look_ahead=draft_pb2.LookAhead(fanout=[4]))
    assert (await caller.call.read()).cache_miss.cached_len == 0
    await caller.close()
    await gone(server)


async def test_an_end_of_the_context_is_no_error(farm: Farm, models: Path) -> None:
    """256 positions: continuations get shorter, then there are none."""
    server = await farm.replica("draft", models / "gpt2")
    async with grpc.aio.insecure_channel(server.address) as channel:
        caller = Caller(draft_pb2_grpc.DraftServiceStub(channel), "ahead")
        found = {}
        for length in (250, 252, 253, 254, 255):
            message = draft_pb2.LookAhead(draft_tokens=[5, 6], fanout=[1, 1, 1])
            await caller.send(prompt_of(length), look_ahead=message)
            response = await caller.call.read()
            found[length] = sorted(len(each.tokens) for each in response.continuations.continuations)
        assert found == {250: [4, 4, 4], 252: [2, 3, 4], 253: [1, 2, 3], 254: [1, 2], 255: []}
        await caller.close()
        await gone(server)
