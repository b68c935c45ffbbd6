"""An answer ends at its length, an end id or a stop text, wherever a block ends."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.answer import Answer, Ending, FinishReason


def letters(ids: Sequence[int]) -> str:
    """Token 0 is 'a', 1 is 'b'...; 25 stands for an incomplete character at the end."""
    text = "".join(chr(97 + i) for i in ids)
    return text[:-1] + "\ufffd" if text.endswith("z") else text


def ids(text: str) -> list[int]:
    return [ord(character) - 97 for character in text]


def answer(most: int = 100, end_ids: str = "", stops: tuple[str, ...] = ()) -> Answer:
    return Answer(Ending(most, frozenset(ids(end_ids)), stops), letters)


def test_it_ends_at_its_length_and_takes_no_more() -> None:
    made = answer(most=3)
    assert made.extend(ids("abcde")) == 3
    assert (made.tokens, made.take_text(), made.finished) == (ids("abc"), "abc", FinishReason.LENGTH)
    assert made.remaining == 0


def test_an_end_id_is_a_token_of_the_answer_but_not_of_its_text() -> None:
    made = answer(end_ids="x")
    assert made.extend(ids("abxcd")) == 3
    assert (made.tokens, made.take_text(), made.finished) == (ids("abx"), "ab", FinishReason.STOP)


def test_an_end_id_as_the_last_allowed_token_is_a_stop() -> None:
    made = answer(most=2, end_ids="x")
    made.extend(ids("ax"))
    assert made.finished is FinishReason.STOP


def test_a_stop_text_keeps_the_token_that_completes_it_and_cuts_the_text_before_it() -> None:
    made = answer(stops=("cd",))
    assert made.extend(ids("abcdef")) == 4
    assert (made.tokens, made.take_text(), made.finished) == (ids("abcd"), "ab", FinishReason.STOP)


def test_a_stop_text_completed_by_the_last_allowed_token_is_a_stop() -> None:
    made = answer(most=4, stops=("cd",))
    made.extend(ids("abcd"))
    assert (made.take_text(), made.finished) == ("ab", FinishReason.STOP)


@pytest.mark.parametrize(("end", "reason"), [("x", FinishReason.STOP), ("", FinishReason.LENGTH)])
def test_held_back_text_is_shown_at_the_end(end: str, reason: FinishReason) -> None:
    made = answer(most=3, end_ids=end, stops=("bcd",))
    made.extend(ids("ab" + (end or "c")))
    assert (made.take_text(), made.finished) == ("ab" if end else "abc", reason)


def test_an_incomplete_character_at_the_end_is_flushed() -> None:
    made = answer(most=2)
    made.extend(ids("az"))
    assert made.take_text() == "a\ufffd"


def test_a_flush_can_complete_a_stop_text() -> None:
    made = answer(most=2, stops=("a\ufffd",))
    made.extend(ids("az"))
    assert (made.take_text(), made.finished) == ("", FinishReason.STOP)


def test_text_is_taken_once() -> None:
    made = answer()
    made.extend(ids("ab"))
    assert [made.take_text(), made.take_text()] == ["ab", ""]


def test_nothing_is_nothing() -> None:
    made = answer(most=5)
    assert (made.extend([]), made.finished, made.remaining) == (0, None, 5)


@given(
    text=st.text(alphabet="abcx", min_size=1, max_size=20),
    most=st.integers(1, 12),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=3), max_size=2),
    cuts=st.lists(st.integers(1, 5), min_size=20, max_size=20),
)
def test_where_blocks_end_does_not_matter(text: str, most: int, stops: list[str], cuts: list[int]) -> None:
    whole, parts = (answer(most, "x", tuple(stops)) for _ in range(2))
    whole.extend(ids(text))
    left, shown = ids(text), ""
    for size in cuts:
        if left and parts.finished is None:
            parts.extend(left[:size])
            left = left[size:]
            shown += parts.take_text()
    assert (parts.tokens, shown, parts.finished) == (whole.tokens, whole.take_text(), whole.finished)
    assert len(whole.tokens) <= most
