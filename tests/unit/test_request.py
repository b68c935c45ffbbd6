"""Every field of a GenerateRequest is honoured, or refused by its name."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from orchestrator.config import OrchestratorConfig
from orchestrator.request import MAX_STOP_CHARACTERS, MAX_STOP_IDS, MAX_STOPS, Turn, read_resumption, read_turn
from orchestrator.speculation import Mode, Speculation
from outrider.errors import InvalidArgument
from outrider.sampling import SamplingParams
from outrider.v1 import orchestrator_pb2 as pb

VOCAB = 100
CONFIG = OrchestratorConfig("folder")
Change = Callable[[pb.GenerateRequest], object]


def request(**fields: Any) -> pb.GenerateRequest:
    return pb.GenerateRequest(**{"prompt": "hi", **fields})


def read(message: pb.GenerateRequest, most_draft_tokens: int = 64) -> Turn:
    return read_turn(message, CONFIG, VOCAB, most_draft_tokens)


def chat(*messages: tuple[str, str]) -> pb.Chat:
    return pb.Chat(messages=[pb.ChatMessage(role=role, content=content) for role, content in messages])


def speculation(mode: Any, tokens: int = 0) -> pb.Speculation:
    return pb.Speculation(mode=mode, draft_tokens=tokens)


FIXED, AUTO, OFF = pb.SPECULATION_MODE_FIXED, pb.SPECULATION_MODE_AUTO, pb.SPECULATION_MODE_OFF

BAD: list[tuple[str, pb.GenerateRequest]] = [
    ("input", pb.GenerateRequest()),
    ("prompt", pb.GenerateRequest(prompt="")),
    ("token_ids.ids", pb.GenerateRequest(token_ids=pb.TokenIds())),
    ("token_ids.ids[1]", pb.GenerateRequest(token_ids=pb.TokenIds(ids=[0, VOCAB]))),
    ("chat.messages", pb.GenerateRequest(chat=pb.Chat())),
    ("chat.messages[1].role", pb.GenerateRequest(chat=chat(("user", "hi"), ("", "x")))),
    ("chat.messages[0].content", pb.GenerateRequest(chat=chat(("user", "")))),
    ("chat.messages[1].content", pb.GenerateRequest(chat=chat(("user", "hi"), ("assistant", "")))),
    ("sampling.temperature", request(sampling={"temperature": -1.0})),
    ("sampling.temperature", request(sampling={"temperature": float("nan")})),
    ("sampling.top_k", request(sampling={"top_k": -1})),
    ("sampling.top_p", request(sampling={"top_p": 0.0})),
    ("sampling.top_p", request(sampling={"top_p": 1.5})),
    ("sampling.min_p", request(sampling={"min_p": float("inf")})),
    ("max_new_tokens", request(max_new_tokens=0)),
    ("max_new_tokens", request(max_new_tokens=-5)),
    ("stop", request(stop=["x"] * (MAX_STOPS + 1))),
    ("stop[1]", request(stop=["x", ""])),
    ("stop[0]", request(stop=["x" * (MAX_STOP_CHARACTERS + 1)])),
    ("stop_token_ids", request(stop_token_ids=[1] * (MAX_STOP_IDS + 1))),
    ("stop_token_ids[2]", request(stop_token_ids=[1, 2, VOCAB])),
    ("speculation.mode", request(speculation=speculation(9))),
    ("speculation.draft_tokens", request(speculation=speculation(FIXED, 0))),
    ("speculation.draft_tokens", request(speculation=speculation(FIXED, -1))),
    ("speculation.draft_tokens", request(speculation=speculation(FIXED, CONFIG.max_draft_tokens + 1))),
    ("speculation.draft_tokens", request(speculation=speculation(AUTO, 3))),
    ("speculation.draft_tokens", request(speculation=speculation(OFF, 3))),
    ("n", request(n=2)),
    ("session_id", request(session_id="s" * 129)),
    ("turn", request(turn=0)),
    ("tenant", request(tenant="a/b")),
    ("tenant", request(tenant="ä")),
    ("tenant", request(tenant="t" * 65)),
]


@pytest.mark.parametrize(("field", "message"), BAD)
def test_what_is_wrong_is_refused_by_the_name_of_its_field(field: str, message: pb.GenerateRequest) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(message)
    assert caught.value.field == field


UNKNOWN = b"\xa2\x06\x03new"
"""Field 100, a string: what a client of a newer protocol might send."""

NESTED: list[tuple[str, Change]] = [
    ("request", lambda r: r.MergeFromString(UNKNOWN)),
    ("sampling", lambda r: r.sampling.MergeFromString(UNKNOWN)),
    ("speculation", lambda r: r.speculation.MergeFromString(UNKNOWN)),
    ("token_ids", lambda r: r.token_ids.MergeFromString(UNKNOWN)),
    ("chat", lambda r: r.chat.MergeFromString(UNKNOWN)),
    ("chat.messages[1]", lambda r: second_message(r).MergeFromString(UNKNOWN)),
]


def second_message(message: pb.GenerateRequest) -> Message:
    message.chat.messages.add(role="user", content="a")
    return message.chat.messages.add(role="user", content="b")


@pytest.mark.parametrize(("field", "change"), NESTED)
def test_unknown_fields_are_refused_at_any_depth(field: str, change: Change) -> None:
    """A field that this server does not know would otherwise be ignored in silence."""
    message = request()
    change(message)
    with pytest.raises(InvalidArgument, match=r"numbers \[100\]") as caught:
        read(pb.GenerateRequest.FromString(message.SerializeToString()))
    assert caught.value.field == field


def test_every_field_is_read() -> None:
    turn = read(
        pb.GenerateRequest(
            session_id="s1",
            tenant="team:1@x.y-z_2",
            token_ids=pb.TokenIds(ids=[0, 99]),
            sampling={"temperature": 0.5, "top_k": 3, "top_p": 0.5, "min_p": 0.25, "seed": 2**64 - 1},
            max_new_tokens=7,
            stop=["a", "b"],
            stop_token_ids=[5],
            speculation=speculation(FIXED, 4),
            logprobs=True,
            n=1,
            keep_session=True,
            ignore_eos=True,
        )
    )
    assert (turn.session_id, turn.tenant) == ("s1", "team:1@x.y-z_2")
    assert (turn.input.token_ids, turn.input.field) == ((0, 99), "token_ids")
    assert turn.params == SamplingParams(0.5, 3, 0.5, 0.25, 2**64 - 1)
    assert (turn.max_new_tokens, turn.stops, turn.stop_token_ids) == (7, ("a", "b"), (5,))
    assert turn.speculation == Speculation(Mode.FIXED, 4)
    assert (turn.logprobs, turn.keep_session, turn.ignore_eos) == (True, True, True)


def test_every_field_of_the_message_is_known_to_these_tests() -> None:
    """A new field must be read or refused by name: it comes with a change here."""
    assert {field.name for field in pb.GenerateRequest.DESCRIPTOR.fields} == {
        "session_id",
        "prompt",
        "token_ids",
        "chat",
        "sampling",
        "max_new_tokens",
        "stop",
        "stop_token_ids",
        "speculation",
        "logprobs",
        "n",
        "resume_from",
        "keep_session",
        "ignore_eos",
        "tenant",
        "turn",
    }


def test_defaults_are_greedy_auto_and_the_servers_length() -> None:
    turn = read(request())
    assert (turn.params.temperature, turn.params.top_p) == (0.0, 1.0)
    assert turn.max_new_tokens == CONFIG.default_max_new_tokens
    assert turn.speculation == Speculation(Mode.AUTO, 0)
    assert (turn.logprobs, turn.keep_session, turn.ignore_eos, turn.session_id) == (False, False, False, "")
    assert (turn.input.prompt, turn.input.field) == ("hi", "prompt")


def test_a_request_without_a_seed_gets_a_random_one() -> None:
    seeds = {read(request(sampling={"temperature": 1.0})).params.seed for _ in range(20)}
    assert len(seeds) == 20


def test_seed_zero_is_a_seed() -> None:
    assert read(request(sampling={"seed": 0})).params.seed == 0


@pytest.mark.parametrize(
    ("sent", "mode"),
    [(AUTO, Mode.AUTO), (OFF, Mode.OFF), (pb.SPECULATION_MODE_UNSPECIFIED, Mode.AUTO)],
)
def test_modes(sent: int, mode: Mode) -> None:
    assert read(request(speculation=speculation(sent))).speculation == Speculation(mode, 0)


@pytest.mark.parametrize("tokens", [1, CONFIG.max_draft_tokens])
def test_both_ends_of_fixed_speculation_are_allowed(tokens: int) -> None:
    assert read(request(speculation=speculation(FIXED, tokens))).speculation.draft_tokens == tokens


def test_the_targets_own_limit_of_draft_tokens_counts_too() -> None:
    with pytest.raises(InvalidArgument, match="must be 1 to 5"):
        read(request(speculation=speculation(FIXED, 6)), most_draft_tokens=5)


def test_chat_messages_are_read_in_order() -> None:
    turn = read(pb.GenerateRequest(chat=chat(("system", "be brief"), ("user", "hi"))))
    expected = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"})
    assert (turn.input.messages, turn.input.field) == (expected, "chat")


def test_the_largest_allowed_lists_pass() -> None:
    turn = read(request(stop=["x" * MAX_STOP_CHARACTERS] * MAX_STOPS, stop_token_ids=[1] * MAX_STOP_IDS))
    assert (len(turn.stops), len(turn.stop_token_ids)) == (MAX_STOPS, MAX_STOP_IDS)


def test_a_resumption_names_a_session_and_what_was_heard() -> None:
    assert read_resumption(request()) is None
    asked = pb.GenerateRequest(session_id="s", resume_from=0, tenant="t")
    assert read_resumption(asked) == ("s", 0), "nothing heard yet is a lost stream, too"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("session_id", pb.GenerateRequest(resume_from=1)),
        ("prompt", request(session_id="s", resume_from=1)),
        ("max_new_tokens", pb.GenerateRequest(session_id="s", resume_from=1, max_new_tokens=4)),
        ("n", pb.GenerateRequest(session_id="s", resume_from=1, n=1)),
        ("keep_session", pb.GenerateRequest(session_id="s", resume_from=1, keep_session=True)),
    ],
)
def test_beside_resume_from_nothing_else_can_be_asked_for(field: str, message: pb.GenerateRequest) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_resumption(message)
    assert caught.value.field == field
