"""A full cache and shared prefixes, through the whole system: the text never changes, and a refusal says when to
come back."""

import asyncio
from pathlib import Path

import grpc
import pytest

from orchestrator.member import State
from outrider.errors import InvalidArgument, ResourceExhausted
from outrider.status import from_rpc_error
from outrider.v1 import draft_pb2_grpc
from tests.integration.prompts import prompt_of
from tests.integration.test_look_ahead import Caller
from tests.stack import Answer, Farm, Stack, make_request, own_stack

NINE_BLOCKS = 9 * 16384  # of the tiny Llama in float32: 288 tokens
BLOCK = 32


@pytest.fixture
async def roomy(farm: Farm, llama: Path) -> Stack:
    return await farm.stack(llama, llama)


async def beside_a_long_answer(stack: Stack, second: list[int], k: int) -> tuple[Answer, Answer | Exception]:
    """An answer that holds most of the cache, and one that comes when it has begun."""
    first = Answer()
    waiting: asyncio.Task[Answer] | None = None
    async for event in stack.stream(make_request(prompt_of(200), k, max_new_tokens=80)):
        first.read(event)
        if first.ids and waiting is None:
            waiting = asyncio.create_task(stack.generate(second, k, max_new_tokens=10))
    assert waiting is not None
    first.check_books()
    try:
        return first, await waiting
    except Exception as error:
        return first, error


async def test_a_full_target_lets_the_running_answer_end_and_tells_a_new_one_when_to_come(
    farm: Farm, llama: Path, roomy: Stack
) -> None:
    target = await farm.replica("target", llama, kv_bytes=NINE_BLOCKS, queue_s=0.0)
    plain = await roomy.generate(prompt_of(200), 0, max_new_tokens=80)
    async with own_stack(target) as stack:
        first, refused = await beside_a_long_answer(stack, prompt_of(150, "other"), 0)
        assert first.ids == plain.ids
        assert isinstance(refused, grpc.aio.AioRpcError)
        error = from_rpc_error(refused)
        assert isinstance(error, ResourceExhausted)
        assert error.retry_after_s is not None
        assert error.retry_after_s > 0
        assert (await stack.generate(prompt_of(150, "other"), 0, max_new_tokens=10)).ids, "later there is room"


async def test_a_new_answer_waits_for_room_without_disturbing_the_running_one(
    farm: Farm, llama: Path, roomy: Stack
) -> None:
    target = await farm.replica("target", llama, kv_bytes=NINE_BLOCKS)
    plain = [
        await roomy.generate(prompt_of(200), 0, max_new_tokens=80),
        await roomy.generate(prompt_of(150, "other"), 0, max_new_tokens=10),
    ]
    evictions = target.replica.engine.sessions.evictions
    async with own_stack(target) as stack:
        first, second = await beside_a_long_answer(stack, prompt_of(150, "other"), 0)
    assert isinstance(second, Answer), second
    assert [first.ids, second.ids] == [answer.ids for answer in plain]
    assert target.replica.engine.sessions.evictions <= evictions + 1, "the first one's cache, once it has ended"


async def test_a_full_draft_is_done_without_by_the_session_that_finds_no_room_and_by_no_other(
    farm: Farm, llama: Path, roomy: Stack
) -> None:
    target = await farm.replica("target", llama)
    draft = await farm.replica("draft", llama, kv_bytes=NINE_BLOCKS, queue_s=0.0)
    plain = await roomy.generate(prompt_of(150, "other"), 0, max_new_tokens=10)
    async with own_stack(target, draft) as stack:
        first, second = await beside_a_long_answer(stack, prompt_of(150, "other"), 2)
        assert isinstance(second, Answer), second
        assert second.ids == plain.ids
        assert second.finished.speculation.proposed == 0
        assert second.finished.speculation.draft_faults > 0
        assert first.finished.speculation.draft_faults == 0
        assert stack.draft_member.state is State.READY
        first.check_all_accepted()


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 3}], ids=["greedy", "sampled"])
async def test_a_shared_prefix_changes_no_token_and_is_counted(
    farm: Farm, llama: Path, roomy: Stack, sampling: dict[str, float]
) -> None:
    """Two sessions of one tenant share the whole blocks of their common beginning, and one of another none."""
    base, own = prompt_of(100, sampling), prompt_of(9, "own")
    tenant = f"red-{len(sampling)}"
    first = await roomy.generate([*base, 5], 4, tenant=tenant, **sampling)
    assert first.finished.usage.cached_prompt_tokens == 0
    stranger = await roomy.generate([*base, *own], 4, tenant="blue", **sampling)
    assert stranger.finished.usage.cached_prompt_tokens == 0
    nobody = await roomy.generate([*base, *own], 4, **sampling)
    assert nobody.finished.usage.cached_prompt_tokens == 0
    hit = await roomy.generate([*base, *own], 4, tenant=tenant, **sampling)
    assert hit.finished.usage.cached_prompt_tokens == 3 * BLOCK
    assert hit.ids == stranger.ids == nobody.ids
    hit.check_all_accepted()
    load = roomy.target.replica.current_facts().load
    assert load.prefix_cache_hits >= 3 * BLOCK
    assert load.prefix_cache_queries >= load.prefix_cache_hits


async def test_a_session_goes_on_for_its_own_tenant_only(roomy: Stack) -> None:
    first = await roomy.generate(prompt_of(40), 0, max_new_tokens=5, keep_session=True, tenant="red")
    for stranger in ("blue", ""):
        request = make_request([5], 0, session_id=first.session_id, tenant=stranger)
        error = from_rpc_error(await roomy.fails(request))
        assert isinstance(error, InvalidArgument)
        assert (error.field, "unknown or expired" in error.message) == ("session_id", True)
    second = await roomy.generate([5, 6], 0, max_new_tokens=5, session_id=first.session_id, tenant="red")
    usage = second.finished.usage
    assert usage.prompt_tokens == 47
    assert usage.cached_prompt_tokens == 44, "all but the last token of the first answer, which was never run"


async def test_a_prompt_that_fills_every_position_is_refused_with_the_limits(roomy: Stack) -> None:
    most = roomy.target.replica.facts.max_positions
    error = from_rpc_error(await roomy.fails(make_request(prompt_of(most), 0, max_new_tokens=1)))
    assert isinstance(error, InvalidArgument)
    assert f"has {most} tokens with its history, at most {most - 1} fit beside one token" in error.message
    assert len((await roomy.generate(prompt_of(most - 1), 0, max_new_tokens=9)).ids) == 1


async def test_a_full_draft_refuses_a_stream_that_begins_in_mid_answer(farm: Farm, llama: Path) -> None:
    """AUTO begins plain, so a draft's streams begin at any round; the session that holds the room keeps it."""
    draft = await farm.replica("draft", llama, kv_bytes=NINE_BLOCKS, queue_s=0.0)
    async with grpc.aio.insecure_channel(draft.address) as channel:
        stub = draft_pb2_grpc.DraftServiceStub(channel)
        running, late = Caller(stub, "running"), Caller(stub, "late", first=5)
        await running.propose(prompt_of(200))
        await late.send(prompt_of(150, "other"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await late.call.read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        again = await running.propose([*prompt_of(200), 7], prefix_len=200)
        assert again.block.cached_len >= 200
