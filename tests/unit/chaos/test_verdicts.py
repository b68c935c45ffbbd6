"""Answers that differ from what they should be are told apart: wrong, lost, doubled."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider.client import Answer, Finished, FinishReason, SpeculationSummary, Started, Usage
from outrider.errors import (
    DeadlineExceeded,
    InvalidArgument,
    OutriderError,
    ProtocolViolation,
    ResourceExhausted,
    Unavailable,
)
from tests.chaos.verdicts import Expected, Fate, compare, judge, judge_error

DISTINCT = st.lists(st.integers(0, 99), min_size=1, max_size=30, unique=True)
WANT = Expected((1, 2, 3), "abc", (-1.0, -2.0, -3.0))


def answer(ids: Sequence[int] = (1, 2, 3), text: str = "abc", logprobs: Sequence[float] = (-1.0, -2.0, -3.0)) -> Answer:
    started = Started("session", 1, "", "", 1, True)
    totals = SpeculationSummary(0, 0, 0, 0, 0, 0, 0, 0)
    finished = Finished(FinishReason.LENGTH, Usage(1, len(ids), 0), totals, False, "session")
    return Answer(text, tuple(ids), tuple(logprobs), started, finished)


@given(DISTINCT, st.data())
def test_what_is_missing_is_lost(want: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(want) - 1))
    end = data.draw(st.integers(start + 1, len(want)))
    assert compare(want, want[:start] + want[end:]) is Fate.LOST


@given(DISTINCT, st.data())
def test_what_comes_twice_is_doubled(want: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(want) - 1))
    end = data.draw(st.integers(start + 1, len(want)))
    assert compare(want, want[:end] + want[start:]) is Fate.DOUBLED


@given(DISTINCT, DISTINCT)
def test_equal_is_answered_and_nothing_else_is(want: list[int], got: list[int]) -> None:
    assert compare(want, list(want)) is Fate.ANSWERED
    assume(want != got)
    assert compare(want, got) is not Fate.ANSWERED


@given(DISTINCT, st.data())
def test_another_token_is_wrong(want: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(want) - 1))
    assert compare(want, [*want[:at], 1000, *want[at + 1 :]]) is Fate.WRONG
    assert compare(want, [*want[:at], 1000, *want[at:]]) is Fate.WRONG


def test_tokens_text_and_logprobs_count() -> None:
    assert judge(WANT, answer()) == (Fate.ANSWERED, "")
    assert judge(WANT, answer(ids=(1, 2, 4)))[0] is Fate.WRONG
    fate, detail = judge(WANT, answer(text="abbc"))
    assert (fate, detail) == (Fate.DOUBLED, "text differ at 2: should be 'c', got 'bc'")
    assert judge(WANT, answer(logprobs=(-1.0, -2.0)))[0] is Fate.LOST


@pytest.mark.parametrize("error", [Unavailable("a"), ResourceExhausted("b"), DeadlineExceeded("c")])
def test_a_clear_status_is_a_refusal(error: OutriderError) -> None:
    fate, detail = judge_error(error)
    assert fate is Fate.REFUSED
    assert detail.startswith(type(error).__name__)
    assert judge_error(InvalidArgument("session_id", "unknown"))[0] is Fate.REFUSED


@pytest.mark.parametrize("error", [OutriderError("what was made again differs"), ProtocolViolation("?")])
def test_an_internal_error_is_not(error: OutriderError) -> None:
    assert judge_error(error)[0] is Fate.WRONG
