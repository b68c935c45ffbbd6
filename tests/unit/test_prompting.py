"""The tokens of a turn: prompts and ids are appended, a chat is rendered anew."""

from pathlib import Path

import pytest

from orchestrator.conversations import Conversation
from orchestrator.prompting import next_messages, prompt_tokens
from orchestrator.request import TurnInput
from outrider.errors import InvalidArgument
from outrider.tokenizer import Message, Tokenizer
from tests.unit.byte_tokenizers import byte_level, save

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
HI = {"role": "user", "content": "hi"}
YO = {"role": "assistant", "content": "yo"}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer.load(save(byte_level(), tmp_path, {}, TEMPLATE))


def conversation(history: list[int], messages: list[Message] | None = None) -> Conversation:
    made = Conversation("s", messages=messages)
    made.set_prompt(history)
    return made


def test_a_prompt_is_tokenized_as_it_is(tokenizer: Tokenizer) -> None:
    tokens = prompt_tokens(conversation([]), TurnInput(prompt="abc"), tokenizer)
    assert tokenizer.decode(tokens) == "abc"


def test_a_second_prompt_is_appended_to_the_history(tokenizer: Tokenizer) -> None:
    tokens = prompt_tokens(conversation([65, 66]), TurnInput(prompt="c"), tokenizer)
    assert tokens == [65, 66, 99]


def test_ids_are_used_as_they_are_and_appended(tokenizer: Tokenizer) -> None:
    assert prompt_tokens(conversation([]), TurnInput(token_ids=(1, 2)), tokenizer) == [1, 2]
    assert prompt_tokens(conversation([9]), TurnInput(token_ids=(1, 2)), tokenizer) == [9, 1, 2]


def test_a_later_turn_of_a_chat_reads_like_a_fresh_chat_of_the_same_messages(tokenizer: Tokenizer) -> None:
    later = prompt_tokens(conversation([1, 2, 3], [HI, YO]), TurnInput(messages=(HI,)), tokenizer)
    fresh = prompt_tokens(conversation([]), TurnInput(messages=(HI, YO, HI)), tokenizer)
    assert later == fresh
    assert tokenizer.decode(later) == "<user>hi<assistant>yo<user>hi<assistant>"


@pytest.mark.parametrize(
    ("began", "turn", "words"),
    [
        ([HI], TurnInput(prompt="x"), "began as a chat"),
        ([HI], TurnInput(token_ids=(1,)), "began as a chat"),
        (None, TurnInput(messages=(HI,)), "began as a prompt"),
    ],
)
def test_a_session_is_continued_in_its_own_form(
    tokenizer: Tokenizer, began: list[Message] | None, turn: TurnInput, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        prompt_tokens(conversation([1], began), turn, tokenizer)
    assert caught.value.field == turn.field


def test_prompts_and_ids_may_be_mixed(tokenizer: Tokenizer) -> None:
    assert prompt_tokens(conversation([65]), TurnInput(token_ids=(66,)), tokenizer) == [65, 66]


def test_a_template_that_renders_nothing_is_refused(tmp_path: Path) -> None:
    silent = Tokenizer.load(save(byte_level(), tmp_path, {}, "{% if false %}x{% endif %}"))
    with pytest.raises(InvalidArgument, match="gives no tokens") as caught:
        prompt_tokens(conversation([]), TurnInput(messages=(HI,)), silent)
    assert caught.value.field == "chat"


def test_next_messages_are_none_unless_it_is_a_chat() -> None:
    assert next_messages(conversation([]), TurnInput(prompt="x")) is None
    assert next_messages(conversation([], [HI, YO]), TurnInput(messages=(HI,))) == [HI, YO, HI]


def test_the_conversation_is_not_changed_by_rendering(tokenizer: Tokenizer) -> None:
    made = conversation([1, 2], [HI])
    prompt_tokens(made, TurnInput(messages=(YO,)), tokenizer)
    assert (made.messages, made.log.tokens) == ([HI], [1, 2])
