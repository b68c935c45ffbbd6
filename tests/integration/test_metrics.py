"""What is counted sums to what requests were told, over real sockets and in both tiers (design I7)."""

import asyncio
from pathlib import Path

import pytest

from outrider.instruments import Counter, Labels, Number
from tests.integration.prompts import prompt_of
from tests.stack import Answer, Farm, Stack, make_request, own_stack
from tests.waiting import eventually


def seen(counter: Counter) -> dict[Labels, Number]:
    """Series that have counted anything."""
    return {labels: count for labels, count in counter.read().items() if count}


def total(answers: list[Answer], field: str) -> int:
    return sum(getattr(answer.finished.speculation, field) for answer in answers)


async def some(stack: Stack) -> list[Answer]:
    """Blocks, runs, AUTO, stop texts in mid-block, turns of a session; some at once."""
    asked = [stack.generate(prompt_of(9, i), k, max_new_tokens=24) for i, k in enumerate((0, 1, 4, 4, None, None))]
    answers = list(await asyncio.gather(*asked))
    answers.append(await stack.generate(prompt_of(9), 4, max_new_tokens=30, temperature=0.8, seed=3, keep_session=True))
    answers.append(await stack.generate(prompt_of(5), 4, max_new_tokens=7, session_id=answers[-1].session_id))
    return answers


async def test_the_counts_of_an_orchestrator_are_the_sums_over_its_answers(
    farm: Farm, llama: Path, good_draft: Path
) -> None:
    target, draft = await farm.replica("target", llama), await farm.replica("draft", good_draft)
    async with own_stack(target, draft) as stack:
        answers = await some(stack)
        meters = stack.pools.meters
        assert sum(meters.emitted().values()) == total(answers, "emitted") == sum(len(a.ids) for a in answers)
        assert sum(meters.rounds().values()) == meters.round_s.count() == total(answers, "rounds")
        assert sum(meters.proposed().values()) == total(answers, "proposed") > 0
        assert sum(meters.accepted().values()) == total(answers, "accepted") > 0
        assert meters.proposed().get(("ngram",), 0) == total(answers, "copied")
        assert meters.look_aheads.total() == total(answers, "look_aheads")
        assert meters.prompt.total() == sum(answer.finished.usage.prompt_tokens for answer in answers)
        assert meters.cached.total() == sum(answer.finished.usage.cached_prompt_tokens for answer in answers)
        assert meters.requests.total("length") == meters.request_s.count() == len(answers)
        assert meters.ttft_s.count() == meters.tpot_s.count() == meters.queue_s.count() == len(answers)
        totals = (await stack.info()).totals
        assert (totals.emitted, totals.rounds) == (total(answers, "emitted"), total(answers, "rounds"))
        assert sum(totals.proposed_at) == totals.proposed
        assert sum(totals.accepted_at) == totals.accepted
        assert sum(totals.rounds_by_mode.values()) == totals.rounds


async def test_the_counts_of_replicas_are_those_of_the_rounds_that_they_served(
    farm: Farm, llama: Path, good_draft: Path
) -> None:
    """The target serves each round once, and says CacheMiss when it lost the session."""
    target, draft = await farm.replica("target", llama), await farm.replica("draft", good_draft)
    served, passes = target.replica.meters.served.total(), target.replica.meters.pass_s.count()
    async with own_stack(target, draft) as stack:
        answers = [await stack.generate(prompt_of(9), k, max_new_tokens=24) for k in (0, 4)]
        assert target.replica.meters.served.total() - served == total(answers, "rounds")
        first = await stack.generate(prompt_of(9), 4, max_new_tokens=8, keep_session=True)
        before = target.replica.meters.missed.total()
        assert await target.evict() > 0
        await stack.generate(prompt_of(5), 4, max_new_tokens=8, session_id=first.session_id)
        assert target.replica.meters.missed.total() == before + 1
        assert stack.pools.meters.misses.total("target", "lost") == 1
        meters = target.replica.meters
        assert meters.pass_s.count() - passes >= total(answers, "rounds") / 4
        assert meters.pass_s.count() == meters.rows.count()
        assert meters.busy_s.total() == pytest.approx(sum(s.total for s in meters.pass_s.series.values()))


async def test_refusals_and_failures_are_counted_by_reason(farm: Farm, llama: Path) -> None:
    async with own_stack(await farm.replica("target", llama), max_answers=1, admission_s=0.05) as stack:
        running = asyncio.create_task(stack.generate(prompt_of(9), 0, max_new_tokens=300))
        meters = stack.pools.meters
        await eventually(lambda: sum(meters.rounds().values()) > 0, "the first answer runs")
        await stack.fails(make_request([5]))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await eventually(lambda: meters.requests.total("cancelled") == 1, "the first one is given up")
        await stack.fails(make_request([5], session_id="nobody"))
        assert seen(meters.refusals) == {("waited",): 1}
        assert seen(meters.requests) == {("ResourceExhausted",): 1, ("cancelled",): 1, ("NotFound",): 1}


async def test_a_lost_target_is_a_fail_over_with_its_reason(farm: Farm, llama: Path) -> None:
    """And the first answer of the one that comes after it misses because the session has moved."""
    first, second = await farm.replica("target", llama), await farm.replica("target", llama, kv_bytes=2**22)
    async with own_stack(first, target_address=f"{first.address},{second.address}") as stack:
        await eventually(lambda: all(m.facts for m in stack.pools.targets.members), "both are known")
        kept = await stack.generate(prompt_of(9), 0, max_new_tokens=8, keep_session=True)
        used = next(m for m in stack.pools.targets.members if m.address == place_of(stack, kept))
        used.failed("for the test")
        used.patience.asks_at += 600.0  # however slow the machine, it is not asked again in this test
        await stack.generate(prompt_of(5), 0, max_new_tokens=8, session_id=kept.session_id)
        assert seen(stack.pools.meters.misses) == {("target", "moved"): 1}
        for server in (first, second):  # the one that was left keeps what it had until somebody needs the room
            await server.evict()


def place_of(stack: Stack, answer: Answer) -> str:
    """Where a kept session is."""
    conversation = stack.service.conversations.begin(answer.session_id, "", None)
    stack.service.conversations.end(conversation, True)
    return conversation.target_place.address
