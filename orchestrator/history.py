"""A session between two turns, as it can be told to another orchestrator. It knows no caches."""

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.tokenizer import Message


@dataclass(frozen=True, slots=True)
class History:
    """Its tokens, prompts and answers; its messages if it is a chat; its complete turns; and the fingerprint of the
    tokenizer, without which the tokens mean nothing."""

    tokens: tuple[int, ...] = ()
    messages: Sequence[Message] | None = None
    turns: int = 0
    fingerprint: str = ""
