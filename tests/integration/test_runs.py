"""Runs over real sockets: the next message ends one at once, and what was computed in between changes no token."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.tokens import TokenLog
from outrider.v1 import common_pb2, target_pb2, target_pb2_grpc
from tests.integration.prompts import prompt_of
from tests.stack import Farm, ReplicaServer
from tests.waiting import eventually

PROMPT = list(prompt_of(40))
RUN = 60
SETTINGS: tuple[dict[str, Any], ...] = ({"temperature": 0.0}, {"temperature": 0.9, "top_k": 40})


@pytest.fixture
async def server(farm: Farm, llama: Path) -> ReplicaServer:
    return await farm.replica("target", llama)


@pytest.fixture
async def stub(server: ReplicaServer) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield target_pb2_grpc.TargetServiceStub(channel)


def message(number: int, path: Sequence[int], prefix_len: int, **fields: Any) -> target_pb2.VerifyRequest:
    digest = TokenLog(path).digest(prefix_len)
    tokens = path[prefix_len:]
    return target_pb2.VerifyRequest(round=number, prefix_len=prefix_len, prefix_digest=digest, tokens=tokens, **fields)


def opening(session_id: str, sampling: dict[str, Any]) -> dict[str, Any]:
    return {"session_id": session_id, "sampling": common_pb2.SamplingParams(seed=5, **sampling)}


async def release(stub: Any, *session_ids: str) -> None:
    for session_id in session_ids:
        wanted = common_pb2.ReleaseRequest(session_id=session_id)
        await stub.Release(target_pb2.TargetServiceReleaseRequest(release=wanted))


async def plain(stub: Any, sampling: dict[str, Any]) -> list[int]:
    """The tokens of a whole run."""
    call = stub.Verify(timeout=60)
    await call.write(message(0, PROMPT, 0, run=RUN, **opening("plain", sampling)))
    tokens = [(await call.read()).verdict.next_token for _ in range(RUN + 1)]
    call.cancel()
    return tokens


@pytest.mark.parametrize("told", [1, 2, 7])
@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
async def test_a_block_ends_a_run_and_gets_the_verdict_that_it_would_have_got_without(
    stub: Any, server: ReplicaServer, sampling: dict[str, Any], told: int
) -> None:
    """After ``told`` verdicts a block of four comes, three of which are right. Late verdicts come before its own, none
    after it, and far fewer than the run had left."""
    tokens = await plain(stub, sampling)
    call = stub.Verify(timeout=60)
    await call.write(message(0, PROMPT, 0, run=RUN, **opening("yields", sampling)))
    for number in range(told):
        assert (await call.read()).round == number
    path, right = [*PROMPT, *tokens[:told]], tokens[told : told + 3]
    wrong = (tokens[told + 3] + 1) % 50
    await call.write(message(RUN + 1, path, len(path) - 1, draft_tokens=[*right, wrong]))
    late = []
    while (response := await call.read()).round != RUN + 1:
        late.append(response.round)
    assert late == list(range(told, told + len(late)))
    assert len(late) < RUN - told
    assert (response.verdict.num_accepted, response.verdict.next_token) == (3, tokens[told + 3])
    path += [*right, tokens[told + 3]]
    await call.write(message(RUN + 2, path, response.verdict.cached_len))
    response = await call.read()
    assert (response.round, response.verdict.next_token) == (RUN + 2, tokens[told + 4])
    call.cancel()
    await eventually(lambda: server.replica.engine.idle, "the engine is idle")
    await release(stub, "plain", "yields")
