"""Streamed text is the decoding of all tokens, never splits a character and never leaks a stop text."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.text import INCOMPLETE, Decode, StopMatcher, TextStream
from tests.unit.byte_tokenizers import byte_fallback, byte_level

BYTE_LEVEL = byte_level()
BYTE_FALLBACK = byte_fallback()
WIDE = "aé \n你好👍🏽🇩🇪🇫🇷👨‍👩‍👧ह्हि\u0301\u200dﬁ€\x00z" + INCOMPLETE


def decode(ids: Sequence[int]) -> str:
    return str(BYTE_LEVEL.decode(list(ids), skip_special_tokens=True))


def decode_fallback(ids: Sequence[int]) -> str:
    return str(BYTE_FALLBACK.decode(list(ids), skip_special_tokens=True))


def stream(ids: Sequence[int], decoder: Decode = decode) -> tuple[list[str], str]:
    """Chunks of each push, and the flush."""
    text = TextStream(decoder)
    return [text.push(token) for token in ids], text.flush()


any_bytes = st.lists(
    st.one_of(st.integers(0, 262), st.sampled_from([0x80, 0xBF, 0xE4, 0xF0, 0x9F, 0x98, 0x61])), max_size=40
)


@given(st.text(alphabet=WIDE, max_size=30))
@example("🇩🇪🇫🇷")
@example("👨‍👩‍👧 family")
@example(INCOMPLETE)
def test_joined_chunks_are_the_text(text: str) -> None:
    chunks, last = stream(BYTE_LEVEL.encode(text).ids)
    assert "".join(chunks) + last == text


@given(any_bytes)
@example([0x80, 0x80, 0x80])
@example([0xF0, 0x9F, 0x61])
@example([0xE4, 0xBD, 0x80])
def test_joined_chunks_are_the_decoding_of_any_bytes(ids: list[int]) -> None:
    """Lone continuation bytes, cut characters, tokens that end inside a character, special tokens."""
    chunks, last = stream(ids)
    assert "".join(chunks) + last == decode(ids)


@given(any_bytes)
def test_no_chunk_ends_in_an_incomplete_character(ids: list[int]) -> None:
    chunks, _ = stream(ids)
    assert not any(chunk.endswith(INCOMPLETE) for chunk in chunks)


@given(st.text(alphabet=WIDE.replace(INCOMPLETE, ""), max_size=30))
def test_a_valid_text_is_shown_character_by_character_as_soon_as_it_is_complete(text: str) -> None:
    """One byte per token: after each byte exactly the complete characters have been shown."""
    pushed = TextStream(decode)
    shown, data = "", text.encode()
    for count, byte in enumerate(data, 1):
        shown += pushed.push(byte)
        assert shown == data[:count].decode(errors="ignore")


@pytest.mark.parametrize("text", ["😀", "hello😀 world", "你好", "é"])
def test_byte_fallback_shows_a_character_once_and_whole(text: str) -> None:
    """Such decoders give one U+FFFD per byte of an incomplete character; none of them may be shown."""
    chunks, last = stream(list(text.encode()), decode_fallback)
    assert "".join(chunks) + last == text
    assert not any(INCOMPLETE in chunk for chunk in chunks)


@given(st.text(alphabet="aé你😀", max_size=12))
def test_joined_chunks_are_the_text_with_byte_fallback(text: str) -> None:
    chunks, last = stream(list(text.encode()), decode_fallback)
    assert "".join(chunks) + last == text


def test_an_incomplete_character_at_the_end_is_flushed_as_such() -> None:
    chunks, last = stream([0x61, 0xF0, 0x9F])
    assert (chunks, last) == (["a", "", ""], INCOMPLETE)


def test_flushing_twice_gives_nothing_the_second_time() -> None:
    text = TextStream(decode)
    text.push(0xF0)
    assert [text.flush(), text.flush()] == [INCOMPLETE, ""]


def test_only_a_window_is_decoded() -> None:
    """The cost of a token does not grow with the answer."""
    longest = 0

    def watched(ids: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return decode(ids)

    stream([0x61] * 500, watched)
    assert longest <= 4


def test_a_decoder_that_strips_the_first_space_keeps_the_spaces_between_words() -> None:
    words = ["▁the", "▁cat", "▁sat", "ting"]

    def sentencepiece(ids: Sequence[int]) -> str:
        return "".join(words[i] for i in ids).replace("▁", " ").removeprefix(" ")

    chunks, last = stream([0, 1, 2, 3, 1], sentencepiece)
    assert "".join(chunks) + last == "the cat satting cat"


def cut(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Reference: scan character by character; the stop text that completes first ends the text before it."""
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)], True
    return text, False


def chunked(text: str, sizes: Sequence[int]) -> list[str]:
    pieces: list[str] = []
    for size in itertools.cycle(sizes):
        if not text:
            return pieces
        pieces.append(text[:size])
        text = text[size:]
    raise AssertionError


def match(chunks: Sequence[str], stops: Sequence[str]) -> tuple[str, bool]:
    matcher = StopMatcher(stops)
    shown = ""
    for chunk in chunks:
        text, stopped = matcher.push(chunk)
        shown += text
        if stopped:
            return shown, True
    return shown + matcher.flush(), False


stop_lists = st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3)


@given(st.text(alphabet="abc", max_size=20), stop_lists, st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_the_result_does_not_depend_on_the_chunks(text: str, stops: list[str], sizes: list[int]) -> None:
    assert match(chunked(text, sizes), stops) == cut(text, stops)


@given(st.text(alphabet="abc", max_size=20), stop_lists)
def test_what_is_shown_never_holds_a_stop_text(text: str, stops: list[str]) -> None:
    shown, _ = match(list(text), stops)
    assert not any(stop in shown for stop in stops)


@given(st.text(alphabet="abc", max_size=20), stop_lists)
def test_no_more_is_held_back_than_the_start_of_a_stop_text(text: str, stops: list[str]) -> None:
    matcher, shown = StopMatcher(stops), ""
    for end, character in enumerate(text, 1):
        fresh, stopped = matcher.push(character)
        shown += fresh
        if stopped:
            return
        held = text[len(shown) : end]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_a_stop_text_over_several_chunks_does_not_leak() -> None:
    matcher = StopMatcher(["</end>"])
    assert [matcher.push(piece) for piece in ("hi <", "/", "en", "d> bye")] == [
        ("hi ", False),
        ("", False),
        ("", False),
        ("", True),
    ]


def test_held_text_is_released_when_it_becomes_something_else() -> None:
    matcher = StopMatcher(["</end>"])
    assert [matcher.push(piece) for piece in ("</", "em>")] == [("", False), ("</em>", False)]


def test_held_text_is_flushed_at_the_end() -> None:
    matcher = StopMatcher(["STOP"])
    assert matcher.push("a ST") == ("a ", False)
    assert [matcher.flush(), matcher.flush()] == ["ST", ""]


@pytest.mark.parametrize("stops", [["ab", "abc"], ["abc", "ab"]])
@pytest.mark.parametrize("chunks", [["xabc"], ["x", "a", "b", "c"], ["xab", "c"]])
def test_of_two_that_begin_together_the_earliest_completed_wins(stops: list[str], chunks: list[str]) -> None:
    matcher = StopMatcher(stops)
    results = []
    for chunk in chunks:
        results.append(matcher.push(chunk))
        if results[-1][1]:
            break
    assert "".join(text for text, _ in results) == "x"
    assert results[-1][1]


def test_of_two_that_end_together_the_longest_is_cut() -> None:
    assert match(["xabc"], ["bc", "abc"]) == ("x", True)


def test_without_stop_texts_nothing_is_held() -> None:
    assert StopMatcher([]).push("anything") == ("anything", False)
