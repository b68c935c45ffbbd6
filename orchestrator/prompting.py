"""The tokens of a turn's prompt, the history included. Pure but for the conversation that it fills.

A chat renders the whole conversation again with the model's template, so a later turn reads exactly like a
fresh conversation with the same visible history; prompts and ids are appended to the history as they are.
"""

from orchestrator.conversations import Conversation
from orchestrator.request import TurnInput
from outrider.errors import InvalidArgument
from outrider.tokenizer import Message, Tokenizer


def _refuse_mixture(conversation: Conversation, turn: TurnInput) -> None:
    if not len(conversation.log):
        return
    if (conversation.messages is not None) != (turn.messages is not None):
        began = "a chat" if conversation.messages is not None else "a prompt"
        raise InvalidArgument(turn.field, f"this session began as {began}; continue it in the same form")


def next_messages(conversation: Conversation, turn: TurnInput) -> list[Message] | None:
    """The conversation's messages with this turn's, or None when it is no chat."""
    return [*(conversation.messages or []), *turn.messages] if turn.messages is not None else None


def prompt_tokens(conversation: Conversation, turn: TurnInput, tokenizer: Tokenizer) -> list[int]:
    """History and new input as one list of ids. Raises InvalidArgument naming the input's field."""
    _refuse_mixture(conversation, turn)
    history = conversation.log.tokens
    messages = next_messages(conversation, turn)
    if messages is not None:
        tokens = tokenizer.render_chat(messages)
    elif turn.token_ids is not None:
        tokens = [*history, *turn.token_ids]
    else:
        assert turn.prompt is not None
        tokens = [*history, *tokenizer.encode(turn.prompt, special=not history)]
    if not tokens:
        raise InvalidArgument(turn.field, "gives no tokens")
    return tokens
