"""What a journal keeps, as bytes, and back: protobuf for what is written once, packed ids for the tokens of an answer.

It does not know where the bytes are.
"""

import struct
from collections.abc import Mapping, Sequence

from orchestrator.history import History
from orchestrator.request import Turn
from outrider.tokenizer import Message
from outrider.v1 import common_pb2, journal_pb2, orchestrator_pb2
from outrider.wire import Numerics, numerics_from_pb, numerics_to_pb


def _history_to_pb(history: History) -> journal_pb2.JournalledHistory:
    message = journal_pb2.JournalledHistory(
        tokens=history.tokens, turns=history.turns, tokenizer_fingerprint=history.fingerprint
    )
    if history.messages is not None:
        messages = (orchestrator_pb2.ChatMessage(role=m["role"], content=m["content"]) for m in history.messages)
        message.chat.CopyFrom(orchestrator_pb2.Chat(messages=messages))
    return message


def _history_from_pb(message: journal_pb2.JournalledHistory) -> History:
    messages: list[Message] | None = None
    if message.HasField("chat"):
        messages = [{"role": each.role, "content": each.content} for each in message.chat.messages]
    return History(tuple(message.tokens), messages, message.turns, message.tokenizer_fingerprint)


def write_history(history: History) -> bytes:
    """A session between turns."""
    return _history_to_pb(history).SerializeToString()


def read_history(data: bytes) -> History:
    """Raises DecodeError for what is none."""
    return _history_from_pb(journal_pb2.JournalledHistory.FromString(data))


def write_answer(request: orchestrator_pb2.GenerateRequest, turn: Turn, history: History, weights: str) -> bytes:
    """An answer as it was asked for, and the fingerprint of the target's weights: with what the server chose where the
    client did not, any orchestrator makes the same of it."""
    whole = orchestrator_pb2.GenerateRequest()
    whole.CopyFrom(request)
    whole.sampling.seed = turn.params.seed
    whole.max_new_tokens = turn.max_new_tokens
    return journal_pb2.JournalledAnswer(
        request=whole, history=_history_to_pb(history), weights_fingerprint=weights
    ).SerializeToString()


def read_answer(data: bytes) -> tuple[orchestrator_pb2.GenerateRequest, History, str]:
    """Raises DecodeError for what is none."""
    answer = journal_pb2.JournalledAnswer.FromString(data)
    return answer.request, _history_from_pb(answer.history), answer.weights_fingerprint


def write_numerics(numerics: Numerics) -> bytes:
    """What an answer was made with."""
    return numerics_to_pb(numerics).SerializeToString()


def read_numerics(data: bytes) -> Numerics | None:
    """None where nobody has told. Raises DecodeError for what is none."""
    return numerics_from_pb(common_pb2.Numerics.FromString(data)) if data else None


def write_tokens(tokens: Sequence[int]) -> bytes:
    """Four bytes per token, the least significant first."""
    return struct.pack(f"<{len(tokens)}I", *tokens)


def read_tokens(chunks: Mapping[int, bytes]) -> tuple[int, ...]:
    """Tokens from chunks by the position of their first, up to the first gap. Raises struct.error for other bytes."""
    tokens: list[int] = []
    for start in sorted(chunks):
        if start > len(tokens):
            break
        tokens[start:] = struct.unpack(f"<{len(chunks[start]) // 4}I", chunks[start])
    return tuple(tokens)
