"""What systems tell of an answer: which tokens came when, and the rounds behind them."""

import pytest

from bench.processes import BenchError
from bench.systems.base import Request, Step, complete, timed

STEPS = (Step(2.0, (7,)), Step(3.0, (8, 9), proposed=4, accepted=1), Step(3.5, (1,)))


def test_an_answer_is_timed_by_its_steps() -> None:
    one = timed(1.0, STEPS)
    assert (one.sent, one.first, one.last, one.tokens) == (1.0, 2.0, 3.5, 4)
    assert one.ids == (7, 8, 9, 1)


def test_an_answer_without_tokens_is_refused_like_one_of_another_length() -> None:
    with pytest.raises(BenchError, match="answered 0 tokens instead of 4"):
        complete("A", Request((1,), 4), timed(1.0, ()))
    assert complete("A", Request((1,), 4), timed(1.0, STEPS)).tokens == 4
