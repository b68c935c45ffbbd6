"""Two orchestrators and one journal: whichever of them goes, and wherever, a client hears each token once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from outrider.v1 import orchestrator_pb2 as pb
from tests.integration.prompts import prompt_of
from tests.redis_server import RedisServer, redis_server
from tests.stack import Answer, Farm, Stack, make_request, own_stack
from tests.waiting import eventually

TOKENS = 40


@contextlib.asynccontextmanager
async def two_orchestrators(farm: Farm, model: Path) -> AsyncIterator[tuple[Stack, Stack, RedisServer]]:
    """With the same replicas."""
    target, draft = await farm.replica("target", model), await farm.replica("draft", model)
    async with redis_server() as redis:
        with_journal = {"journal": redis.url}
        async with (
            own_stack(target, draft, **with_journal) as first,
            own_stack(target, draft, **with_journal) as second,
        ):
            yield first, second, redis


async def some(stack: Stack, request: pb.GenerateRequest, count: int) -> Answer:
    """At least so many tokens of an answer, whose stream is then left."""
    answer = Answer()
    async with contextlib.aclosing(stack.stream(request)) as events:
        async for event in events:
            answer.read(event)
            if len(answer.ids) >= count and answer.started.session_id:
                break
    return answer


async def rest(stack: Stack, answer: Answer) -> Answer:
    """The answer with what another orchestrator adds to it."""
    request = pb.GenerateRequest(session_id=answer.session_id, resume_from=len(answer.ids))
    whole = Answer(list(answer.ids), answer.text, list(answer.logprobs), started=answer.started)
    seed = answer.started.seed
    async with contextlib.aclosing(stack.stream(request)) as events:
        async for event in events:
            whole.read(event)
    assert (whole.started.seed, whole.started.session_id) == (seed, answer.session_id)
    return whole


@pytest.mark.parametrize("count", [0, 1, 13, TOKENS])
@pytest.mark.parametrize("k", [0, 4])
async def test_the_rest_comes_from_the_other_orchestrator(farm: Farm, llama: Path, count: int, k: int) -> None:
    async with two_orchestrators(farm, llama) as (first, second, _):
        request = make_request(prompt_of(9), k, max_new_tokens=TOKENS, temperature=0.8, seed=7, logprobs=True)
        alone = await first.ask(request)
        answer = await some(first, request, count)
        await first.service._journal.flush()
        whole = await rest(second, answer)
        assert (whole.ids, whole.text, whole.logprobs) == (alone.ids, alone.text, alone.logprobs)
        assert whole.finished.usage.completion_tokens == TOKENS
        assert whole.finished.usage.prompt_tokens == alone.finished.usage.prompt_tokens


async def test_an_answer_whose_end_was_lost_is_told_again(farm: Farm, llama: Path) -> None:
    async with two_orchestrators(farm, llama) as (first, second, _):
        alone = await first.ask(make_request(prompt_of(9), 0, max_new_tokens=8))
        await first.service._journal.flush()
        ended = await rest(second, alone)
        assert ended.ids == alone.ids
        assert ended.reason == "LENGTH"
        nothing = await rest(second, Answer(started=alone.started))
        assert (nothing.ids, nothing.text) == (alone.ids, alone.text)


async def test_the_one_that_still_makes_the_answer_stops(farm: Farm, llama: Path) -> None:
    """Whether the client comes back to the other one or to the same."""
    async with two_orchestrators(farm, llama) as (first, second, _):
        for other in (second, first):
            request = make_request(prompt_of(9), 0, max_new_tokens=TOKENS * 4, seed=1)
            alone = await first.ask(request)
            answer = Answer()
            ended: list[grpc.StatusCode] = []
            call = first.stub.Generate(request, timeout=60)
            async for event in call:
                answer.read(event)
                if len(answer.ids) >= 4:
                    break
            await first.service._journal.flush()
            whole = await rest(other, answer)
            assert whole.ids == alone.ids
            await first.service._journal.flush()
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
            ended.append(await call.code())
            assert ended[0] in (grpc.StatusCode.ABORTED, grpc.StatusCode.OK), "OK where it was quicker"


async def test_a_conversation_goes_on_at_any_orchestrator(farm: Farm, llama: Path) -> None:
    async with two_orchestrators(farm, llama) as (first, second, _):

        async def turns(order: list[Stack]) -> list[list[int]]:
            ids, session_id = [], ""
            for number, stack in enumerate(order):
                last = number == len(order) - 1
                answer = await stack.ask(
                    make_request([5 + number, 6], 0, session_id=session_id, keep_session=not last, max_new_tokens=6)
                )
                await stack.service._journal.flush()
                session_id = answer.session_id
                ids.append(answer.ids)
            return ids

        alone = await turns([first] * 4)
        assert await turns([first, second, first, second]) == alone
        assert await turns([first, second, second, first]) == alone
        for stack in (first, second):
            for conversation in list(stack.service.conversations._kept.values()):
                stack.service.conversations._drop(conversation)


async def test_a_turn_of_a_conversation_is_resumed_and_the_conversation_goes_on(farm: Farm, llama: Path) -> None:
    async with two_orchestrators(farm, llama) as (first, second, _):
        begin = make_request([5, 6], 0, keep_session=True, max_new_tokens=6)

        def second_turn(session_id: str) -> pb.GenerateRequest:
            return make_request([7, 8], 0, session_id=session_id, keep_session=True, max_new_tokens=TOKENS)

        def third_turn(session_id: str) -> pb.GenerateRequest:
            return make_request([9], 0, session_id=session_id, max_new_tokens=6)

        before = await first.ask(begin)
        alone = await first.ask(second_turn(before.session_id))
        after = await first.ask(third_turn(before.session_id))
        again = await first.ask(begin)
        lost = await some(first, second_turn(again.session_id), 10)
        await first.service._journal.flush()
        whole = await rest(second, lost)
        assert whole.ids == alone.ids
        await second.service._journal.flush()
        last = await second.ask(third_turn(again.session_id))
        assert last.ids == after.ids
        for conversation in list(first.service.conversations._kept.values()):
            first.service.conversations._drop(conversation)


async def test_one_session_answers_one_request_at_a_time_in_all_orchestrators(farm: Farm, llama: Path) -> None:
    async with two_orchestrators(farm, llama) as (first, second, _):
        kept = await first.ask(make_request([5, 6], 0, keep_session=True, max_new_tokens=4))
        await first.service._journal.flush()
        async with contextlib.aclosing(
            first.stream(make_request([7], 0, session_id=kept.session_id, max_new_tokens=400))
        ) as events:
            async for event in events:
                if event.HasField("delta"):
                    break
            await first.service._journal.flush()
            error = await second.fails(make_request([8], 0, session_id=kept.session_id))
            assert error.code() is grpc.StatusCode.ABORTED
        for conversation in list(first.service.conversations._kept.values()):
            first.service.conversations._drop(conversation)


@pytest.mark.parametrize(
    ("field", "heard", "session_id"),
    [("session_id", 1, "0" * 32), ("session_id", 1, "nobody"), ("resume_from", TOKENS + 1, "")],
)
async def test_what_cannot_be_resumed_is_refused_by_name(
    farm: Farm, llama: Path, field: str, heard: int, session_id: str
) -> None:
    async with two_orchestrators(farm, llama) as (first, second, _):
        answer = await first.ask(make_request([5], 0, max_new_tokens=TOKENS))
        await first.service._journal.flush()
        request = pb.GenerateRequest(session_id=session_id or answer.session_id, resume_from=heard)
        error = await second.fails(request)
        assert error.code().name == ("NOT_FOUND" if field == "session_id" else "INVALID_ARGUMENT")
        assert (error.details() or "").startswith(f"{field}: ")
        other = pb.GenerateRequest(session_id=answer.session_id, resume_from=1, tenant="other")
        assert (await second.fails(other)).code() is grpc.StatusCode.NOT_FOUND


async def test_with_redis_frozen_answers_go_on_and_say_that_they_cannot_be_resumed(farm: Farm, llama: Path) -> None:
    async with two_orchestrators(farm, llama) as (first, second, redis):
        alone = await first.ask(make_request([5], 0, max_new_tokens=TOKENS, keep_session=True))
        assert alone.started.resumable
        assert (await first.info()).journal == pb.JOURNAL_STATE_READY
        await first.service._journal.flush()
        await redis.freeze()
        writing = asyncio.create_task(first.service._journal.follow())
        same = await first.ask(make_request([5], 0, max_new_tokens=TOKENS))
        assert same.ids == alone.ids
        await eventually(lambda: first.service._journal.state.value == "unavailable", "it is noticed")
        cut_off = await first.ask(make_request([5], 0, max_new_tokens=TOKENS))
        assert (cut_off.ids, cut_off.started.resumable) == (alone.ids, False)
        assert (await first.info()).journal == pb.JOURNAL_STATE_UNAVAILABLE
        error = await first.fails(make_request([6], 0, session_id=alone.session_id))
        assert error.code() is grpc.StatusCode.UNAVAILABLE, "it may have gone on elsewhere"
        goes_on = await first.ask(make_request([6], 0, session_id=alone.session_id, max_new_tokens=4, turn=1))
        assert len(goes_on.ids) == 4, "the client says that it has not"
        error = await second.fails(make_request([6], 0, session_id=alone.session_id))
        assert error.code() is grpc.StatusCode.UNAVAILABLE, "only the journal could know it"
        redis.thaw()
        await eventually(lambda: first.service._journal.state.value == "ready", "it is back")
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def test_without_a_journal_nothing_can_be_resumed(farm: Farm, llama: Path) -> None:
    stack = await farm.stack(llama)
    answer = await stack.ask(make_request([5], 0, max_new_tokens=4))
    assert not answer.started.resumable
    assert (await stack.info()).journal == pb.JOURNAL_STATE_ABSENT
    error = await stack.fails(pb.GenerateRequest(session_id=answer.session_id, resume_from=2))
    assert "OUTRIDER_JOURNAL" in (error.details() or "")


async def left(stack: Stack) -> None:
    """Wait until no answer is being made."""
    await eventually(lambda: not stack.service._door.inside, "it is left")


def forget(*stacks: Stack) -> None:
    """Drop what is kept, so that the replicas are as they were."""
    for stack in stacks:
        for conversation in list(stack.service.conversations._kept.values()):
            stack.service.conversations._drop(conversation)


async def test_looking_for_an_answer_that_was_complete_changes_nothing(farm: Farm, llama: Path) -> None:
    """A client that lost its stream before Started looks whether its turn was taken, and leaves when it was not."""
    async with two_orchestrators(farm, llama) as (first, second, _):
        kept = await first.ask(make_request([5, 6], 0, keep_session=True, max_new_tokens=6))
        for stack in (first, second):
            found = await some(stack, pb.GenerateRequest(session_id=kept.session_id, resume_from=0), 2)
            assert (found.started.turn, found.started.seed) == (0, kept.started.seed)
            await left(stack)
        alone = await first.ask(make_request([7], 0, session_id=kept.session_id, max_new_tokens=6, keep_session=True))
        assert alone.finished.usage.prompt_tokens == 2 + 6 + 1
        assert (alone.started.turn, alone.finished.turns) == (1, 2)
        forget(first, second)


async def test_an_older_state_of_a_session_is_not_gone_on_with(farm: Farm, llama: Path) -> None:
    """Turn one here, turn two there, and then there is no journal to tell."""
    async with two_orchestrators(farm, llama) as (first, second, redis):
        one = await first.ask(make_request([5, 6], 0, keep_session=True, max_new_tokens=6))
        two = await second.ask(make_request([7], 0, session_id=one.session_id, keep_session=True, max_new_tokens=6))
        assert two.finished.turns == 2
        async with redis.client() as client:
            await client.flushall()
        third = make_request([8], 0, session_id=one.session_id, max_new_tokens=6, turn=2)
        error = await first.fails(third)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (error.details() or "").startswith("turn: the session has 1 complete turns here, not 2")
        await redis.freeze()
        assert (await first.fails(third)).code() is grpc.StatusCode.UNAVAILABLE
        right = await second.ask(third)
        assert right.finished.usage.prompt_tokens == 2 + 6 + 1 + 6 + 1
        redis.thaw()
        forget(first, second)


async def test_an_orchestrator_that_lets_go_of_its_copy_disturbs_nobody(farm: Farm, llama: Path) -> None:
    async with two_orchestrators(farm, llama) as (first, second, _):
        one = await first.ask(make_request([5, 6], 0, keep_session=True, max_new_tokens=6))
        request = make_request([7], 0, session_id=one.session_id, max_new_tokens=60)
        alone = Answer()
        async with contextlib.aclosing(second.stream(request)) as events:
            async for event in events:
                alone.read(event)
                if len(alone.ids) == 5:
                    forget(first)
        assert len(alone.ids) == 60
