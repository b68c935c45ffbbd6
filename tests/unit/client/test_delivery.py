"""However a stream is cut, and however what follows is cut, each token and each character is handed out once."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.client.delivery import Delivery
from outrider.client.events import Delta, Drafter, Round
from outrider.errors import OutriderError

ROUND = Round(3, (1,), 0, 5, 6, Drafter.MODEL, False)
TOKENS = tuple(range(100, 130))
TEXT = "".join(chr(97 + token % 26) for token in TOKENS)
CUTS = st.lists(st.integers(1, 7), min_size=30, max_size=30)
LAG = 2


def certain(count: int) -> int:
    """Characters that are certain after so many tokens."""
    return count if count == len(TOKENS) else max(0, count - LAG)


def deltas(cuts: Sequence[int], start: int = 0) -> list[Delta]:
    """The answer from a token on, cut like this."""
    made, done = [], start
    for size in cuts:
        end = min(done + size, len(TOKENS))
        if end > done:
            tokens = TOKENS[done:end]
            text = TEXT[certain(done) : certain(end)]
            made.append(Delta(text, tokens, tuple(-float(token) for token in tokens), ROUND))
        done = end
    return made


@given(st.lists(st.tuples(CUTS, st.integers(0, 20), st.booleans()), max_size=5), CUTS)
def test_nothing_is_lost_or_doubled(lost: list[tuple[list[int], int, bool]], last: list[int]) -> None:
    delivery = Delivery()
    given_out: list[Delta] = []

    def tell(cuts: list[int], count: int, resumes: bool) -> None:
        start = len(delivery.tokens) if resumes else 0
        (delivery.go_on if resumes else delivery.again)()
        fresh = [delivery.take(delta) for delta in deltas(cuts, start)[:count]]
        given_out.extend(delta for delta in fresh if delta is not None)

    for cuts, count, resumes in lost:
        tell(cuts, count, resumes)
    tell(last, 30, False)
    assert tuple(token for delta in given_out for token in delta.token_ids) == TOKENS
    assert "".join(delta.text for delta in given_out) == TEXT
    assert [logprob for delta in given_out for logprob in delta.logprobs] == [-float(token) for token in TOKENS]
    assert all(delta.token_ids or delta.text for delta in given_out)
    delivery.check_complete(len(TOKENS))


def test_a_round_of_which_a_part_was_known_is_not_told_of() -> None:
    delivery = Delivery()
    whole = delivery.take(Delta("ab", (1, 2), (), ROUND))
    assert whole is not None
    assert whole.round is ROUND
    delivery.again()
    rest = delivery.take(Delta("abc", (1, 2, 3), (), ROUND))
    assert rest == Delta("c", (3,))


@pytest.mark.parametrize("other", [Delta("ab", (1, 9)), Delta("ax", (1, 2))])
def test_another_answer_is_not_taken_for_this_one(other: Delta) -> None:
    delivery = Delivery()
    delivery.take(Delta("ab", (1, 2)))
    delivery.again()
    with pytest.raises(OutriderError, match="differs"):
        delivery.take(other)


def test_an_answer_of_another_length_is_not_complete() -> None:
    delivery = Delivery()
    delivery.take(Delta("ab", (1, 2)))
    delivery.check_complete(2)
    with pytest.raises(OutriderError, match="3 tokens, but 2 came"):
        delivery.check_complete(3)
    delivery.again()
    delivery.take(Delta("a", (1,)))
    with pytest.raises(OutriderError):
        delivery.check_complete(2)
