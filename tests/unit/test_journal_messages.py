"""What a journal is given is what it gives back, and bytes that are nothing are known as that."""

import struct
from collections.abc import Callable

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config import OrchestratorConfig
from orchestrator.history import History
from orchestrator.journal_messages import (
    read_answer,
    read_history,
    read_tokens,
    write_answer,
    write_history,
    write_tokens,
)
from orchestrator.request import read_turn
from outrider.v1.orchestrator_pb2 import GenerateRequest, TokenIds

IDS = st.lists(st.integers(0, 2**32 - 1))
MESSAGES = st.none() | st.lists(st.fixed_dictionaries({"role": st.text(), "content": st.text()}))


@given(st.builds(History, IDS.map(tuple), MESSAGES, st.integers(0, 2**32 - 1), st.text()))
def test_a_history_is_what_it_was(history: History) -> None:
    assert read_history(write_history(history)) == history


@given(st.lists(IDS))
def test_tokens_are_what_they_were_in_whatever_chunks(parts: list[list[int]]) -> None:
    chunks, tokens = {}, list[int]()
    for part in parts:
        if part:
            chunks[len(tokens)] = write_tokens(part)
        tokens += part
    assert read_tokens(chunks) == tuple(tokens)


def test_tokens_end_at_a_gap_and_a_later_chunk_wins() -> None:
    assert read_tokens({0: write_tokens([1, 2]), 3: write_tokens([4])}) == (1, 2)
    assert read_tokens({0: write_tokens([1, 2, 3]), 1: write_tokens([2, 9])}) == (1, 2, 9)


def test_an_answer_is_asked_for_again_exactly_as_it_was() -> None:
    """The seed and the length that the server chose are part of it."""
    config = OrchestratorConfig("folder")
    request = GenerateRequest(token_ids=TokenIds(ids=[3, 4]), keep_session=True, stop=["x"], logprobs=True)
    turn = read_turn(request, config, 10, 4)
    again, history, weights = read_answer(write_answer(request, turn, History((1,), None, 2, "print"), "w"))
    assert (history, weights) == (History((1,), None, 2, "print"), "w")
    assert read_turn(again, OrchestratorConfig("folder", default_max_new_tokens=3), 10, 4) == turn
    assert not request.HasField("max_new_tokens"), "the request itself is left as it is"


@pytest.mark.parametrize("read", [read_history, read_answer])
def test_nonsense_is_no_message(read: Callable[[bytes], object]) -> None:
    with pytest.raises(DecodeError):
        read(b"\xff\xff\xff")
    with pytest.raises(struct.error):
        read_tokens({0: b"12345"})
