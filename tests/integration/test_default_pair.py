"""The pair that the product ships, in the dtype that it serves in, through the whole system."""

import asyncio
from pathlib import Path

import pytest

from outrider.v1 import orchestrator_pb2 as pb
from tests.stack import Farm, Stack

QUESTION = pb.Chat(messages=[pb.ChatMessage(role="user", content="Why is the sky blue? Answer in two sentences.")])
SHOWN = "👩‍🚀 naïve 日本語 🇩🇪 — “quoted”"


@pytest.fixture
async def stack(farm: Farm, default_pair: tuple[Path, Path]) -> Stack:
    """One thread each: two engines in one process would wait for each other's workers at every barrier."""
    target, draft = default_pair
    return await farm.stack(target, draft, "bfloat16", threads=1)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_speculation_does_not_change_a_token(stack: Stack, temperature: float) -> None:
    """bf16, where every other engine's answers part ways sooner or later."""
    plain = await stack.generate(QUESTION, 0, temperature=temperature, seed=11, max_new_tokens=48)
    assert len(plain.ids) == 48
    answers = await asyncio.gather(
        *(stack.generate(QUESTION, k, temperature=temperature, seed=11, max_new_tokens=48) for k in (2, 4))
    )
    for answer in answers:
        assert (answer.ids, answer.text) == (plain.ids, plain.text)
        assert 0 < answer.finished.speculation.accepted < answer.finished.speculation.proposed


async def test_batch_mates_do_not_change_a_token(stack: Stack) -> None:
    """Two questions at once equal each alone."""
    other = pb.Chat(messages=[pb.ChatMessage(role="user", content="Write a Python function that adds two numbers.")])
    alone = [await stack.generate(question, 0, max_new_tokens=16) for question in (QUESTION, other)]
    packed = await asyncio.gather(*(stack.generate(question, 2, max_new_tokens=16) for question in (QUESTION, other)))
    assert [answer.ids for answer in packed] == [answer.ids for answer in alone]


async def test_the_targets_twin_is_never_wrong(farm: Farm, default_pair: tuple[Path, Path]) -> None:
    """100 % of the proposals of the target's own weights, in every round, in bf16."""
    stack = await farm.stack(default_pair[0], default_pair[0], "bfloat16", threads=1)
    answers = await asyncio.gather(
        *(stack.generate(QUESTION, 4, temperature=degree, seed=11, max_new_tokens=32) for degree in (0.0, 0.8))
    )
    for answer in answers:
        answer.check_all_accepted()
        assert answer.finished.speculation.proposed > 20


async def test_streamed_text_is_that_of_the_ids(stack: Stack) -> None:
    """Characters of several tokens arrive whole, whatever k and wherever the answer is cut."""
    prompt = stack.tokenizer.encode(f"{SHOWN}\n" * 6, special=False)
    plain = await stack.generate(prompt, 0, max_new_tokens=40)
    assert any(character in plain.text for character in "👩🚀日本語🇩🇪")
    assert "\ufffd" not in plain.text.rstrip("\ufffd")
    cuts = ((2, 40), (4, 39), (4, 38), (8, 37))
    answers = await asyncio.gather(*(stack.generate(prompt, k, max_new_tokens=most) for k, most in cuts))
    for (_, most), answer in zip(cuts, answers, strict=True):
        assert answer.ids == plain.ids[:most]
        assert answer.text == stack.tokenizer.decode(answer.ids)
