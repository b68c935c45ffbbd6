"""Calls as an orchestrator and a client make them, and the same with one thing wrong: a message twice, left out, in
the wrong place, with one field changed, or with other bytes. What is wholly wrong is refused at the first look.
"""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message
from hypothesis import strategies as st

from outrider.tokens import TokenLog
from outrider.v1 import common_pb2, draft_pb2, orchestrator_pb2, target_pb2
from tests.fuzz.messages import messages, payloads

_TOKENS = st.lists(st.integers(0, 319), min_size=1, max_size=20)
_SESSIONS = st.sampled_from(["s", "t", "u"])
_PARAMS = st.builds(
    common_pb2.SamplingParams, temperature=st.sampled_from([0.0, 0.8]), seed=st.integers(0, 3), top_k=st.just(0)
)
_MOST_ROUNDS = 4


@st.composite
def _claims(draw: st.DrawFn, kind: Callable[..., Message]) -> list[Message]:
    """Rounds of one session, each of which believes that the last one left all its tokens cached."""
    log, cached, rounds = TokenLog(), 0, list[Message]()
    for number in range(draw(st.integers(1, _MOST_ROUNDS))):
        log.extend(draw(_TOKENS))
        first = {"session_id": draw(_SESSIONS), "sampling": draw(_PARAMS)} if number == 0 else {}
        claim = {"prefix_len": cached, "prefix_digest": log.digest(cached), "tokens": log.since(cached)}
        rounds.append(kind(round=number * 16, **claim, **first))
        cached = len(log)
    return rounds


@st.composite
def _verify(draw: st.DrawFn) -> list[Message]:
    rounds = draw(_claims(target_pb2.VerifyRequest))
    for message in rounds:
        assert isinstance(message, target_pb2.VerifyRequest)
        if draw(st.booleans()):
            message.draft_tokens.extend(draw(st.lists(st.integers(0, 319), max_size=4)))
        else:
            message.run = draw(st.integers(0, 8))
    return rounds


@st.composite
def _propose(draw: st.DrawFn) -> list[Message]:
    rounds = draw(_claims(draft_pb2.ProposeRequest))
    for message in rounds:
        assert isinstance(message, draft_pb2.ProposeRequest)
        message.max_draft_tokens = draw(st.integers(1, 4))
        if message.round and draw(st.booleans()):
            block = draw(st.lists(st.integers(0, 319), max_size=3))
            fanout = draw(st.lists(st.integers(0, 3), min_size=len(block) + 1, max_size=len(block) + 1))
            message.look_ahead.CopyFrom(draft_pb2.LookAhead(draft_tokens=block, fanout=fanout))
    return rounds


@st.composite
def _generate(draw: st.DrawFn) -> list[Message]:
    request = orchestrator_pb2.GenerateRequest(
        token_ids=orchestrator_pb2.TokenIds(ids=draw(_TOKENS)),
        sampling=draw(_PARAMS),
        max_new_tokens=draw(st.integers(1, 12)),
        keep_session=draw(st.booleans()),
        logprobs=draw(st.booleans()),
        stop=draw(st.lists(st.text(min_size=1, max_size=2), max_size=2)),
        speculation=draw(
            st.sampled_from([None, orchestrator_pb2.Speculation(mode="SPECULATION_MODE_FIXED", draft_tokens=3)])
        ),
    )
    return [request]


_RIGHT: dict[str, st.SearchStrategy[list[Message]]] = {
    "Verify": _verify(),
    "Propose": _propose(),
    "Generate": _generate(),
}


def _with_a_field_of(message: Message, other: Message) -> Message:
    """The message with the first field that is set in the other one."""
    changed = type(message)()
    changed.CopyFrom(message)
    fields = other.ListFields()
    if fields:
        changed.ClearField(fields[0][0].name)
        part = type(message)()
        part.CopyFrom(other)
        for field, _ in fields[1:]:
            part.ClearField(field.name)
        changed.MergeFrom(part)
    return changed


@st.composite
def _spoilt(draw: st.DrawFn, right: Sequence[Message], kind: Callable[[], Message]) -> list[bytes]:
    """The call with at most one thing wrong."""
    sent = [message.SerializeToString() for message in right]
    place = draw(st.integers(0, len(sent) - 1))
    how = draw(st.sampled_from(["right", "right", "twice", "missing", "swapped", "field", "bytes", "other"]))
    if how == "twice":
        sent.insert(place, sent[place])
    elif how == "missing" and len(sent) > 1:
        del sent[place]
    elif how == "swapped":
        sent[place], sent[-1] = sent[-1], sent[place]
    elif how == "field":
        sent[place] = _with_a_field_of(right[place], draw(messages(kind))).SerializeToString()
    elif how == "bytes" and sent[place]:
        spot = draw(st.integers(0, len(sent[place]) - 1))
        sent[place] = sent[place][:spot] + draw(st.binary(min_size=1, max_size=2)) + sent[place][spot + 1 :]
    elif how == "other":
        sent[place] = draw(payloads(kind))
    return sent


def calls(method: str, kind: Callable[[], Message], most: int) -> st.SearchStrategy[list[bytes]]:
    """Messages of one call of a method."""
    wrong = st.lists(payloads(kind), min_size=1, max_size=most)
    if method not in _RIGHT:
        return wrong
    almost = _RIGHT[method].flatmap(lambda right: _spoilt(right, kind))
    return st.one_of(almost, almost, almost, wrong)
