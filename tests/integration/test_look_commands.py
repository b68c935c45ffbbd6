"""What ``outrider trace`` and ``outrider top`` say of a real orchestrator is what its answers said."""

from pathlib import Path

import pytest

from outrider.cli.bars import Bar, Lane
from outrider.cli.connecting import connect
from outrider.cli.top import poll
from outrider.cli.top_frame import History, frame_of
from outrider.cli.trace import fetch_trace, requests_in
from outrider.cli.traced import Fate, Round
from tests.integration.prompts import prompt_of
from tests.stack import Farm, Stack, own_stack


def address(stack: Stack) -> str:
    return f"127.0.0.1:{stack.server.port}"


def in_order(bars: list[Bar]) -> bool:
    """A lane does one thing at a time, and no bar ends before it begins."""
    ordered = sorted(bars, key=lambda bar: (bar.start_us, bar.end_us))
    edges = [edge for bar in ordered for edge in (bar.start_us, bar.end_us)]
    return edges == sorted(edges)


def committed(done: Round) -> int:
    return sum(token.fate is not Fate.REJECTED for token in done.tokens)


@pytest.mark.parametrize("k", [4, 0, None], ids=["blocks", "runs", "auto"])
async def test_a_trace_has_each_round_with_its_tokens_and_a_place_for_everybody_s_time(
    farm: Farm, llama: Path, good_draft: Path, k: int | None
) -> None:
    target, draft = await farm.replica("target", llama), await farm.replica("draft", good_draft)
    async with own_stack(target, draft) as stack:
        answer = await stack.generate(prompt_of(9), k, max_new_tokens=30)
        text = await fetch_trace(address(stack), "", "", answer.session_id[:8])
        (request,) = requests_in(text, "id")
        assert (request.completion_tokens, request.outcome, request.session_id) == (30, "length", answer.session_id)
        assert [done.number for done in request.rounds] == [stats.round for stats in answer.rounds]
        assert sum(map(committed, request.rounds)) == 30
        assert all(token.text is not None for done in request.rounds for token in done.tokens)
        for done in request.rounds:
            assert all(
                in_order([bar for bar in done.bars if bar.lane is lane]) for lane in (Lane.ORCHESTRATOR, Lane.TARGET)
            )
            assert any(bar.lane is Lane.TARGET for bar in done.bars)
            assert all(bar.end_us <= done.end_us for bar in done.bars if bar.lane is not Lane.DRAFT)
            assert done.notes == ()


async def test_top_counts_what_was_answered_between_two_looks(farm: Farm, llama: Path, good_draft: Path) -> None:
    target, draft = await farm.replica("target", llama), await farm.replica("draft", good_draft)
    async with own_stack(target, draft) as stack, connect(address(stack)) as client:
        (line,), history = client.lines, History("it")
        await stack.generate(prompt_of(9), 4, max_new_tokens=5)
        assert await poll(line, history) is None
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=20)
        assert await poll(line, history) is None
        frame = frame_of([history])
        assert frame.last is not None
        counts = frame.last.counts
        assert (counts.requests, counts.emitted, counts.rounds) == (1, 20, len(answer.rounds))
        assert counts.accepted == sum(stats.num_accepted for stats in answer.rounds) == sum(counts.accepted_at)
        assert counts.proposed == sum(len(stats.draft_tokens) for stats in answer.rounds) == sum(counts.proposed_at)
        assert sum(counts.rounds_by_mode.values()) == counts.rounds
        assert [(replica.role, replica.state) for replica in frame.replicas] == [
            ("target", "ready"),
            ("draft", "ready"),
        ]
