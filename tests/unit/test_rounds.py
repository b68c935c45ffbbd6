"""The first message of a stream fixes session and sampling; every message is a checked claim."""

from typing import Any

import pytest

from outrider.errors import InvalidArgument
from outrider.inference.rounds import Opening, read_claim, read_opening, read_release
from outrider.sampling import SamplingParams
from outrider.tokens import Claim
from outrider.v1 import common_pb2, draft_pb2, target_pb2

Message = draft_pb2.ProposeRequest | target_pb2.VerifyRequest
MESSAGES = (draft_pb2.ProposeRequest, target_pb2.VerifyRequest)
OPENING = Opening("s", SamplingParams())
SEEDED = common_pb2.SamplingParams(temperature=0.5, seed=9)


@pytest.mark.parametrize("message", MESSAGES)
def test_the_first_message_fixes_session_and_sampling(message: type[Message]) -> None:
    opening = read_opening(message(session_id="s", sampling=SEEDED))
    assert opening == Opening("s", SamplingParams(0.5, seed=9))


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("sampling", {"session_id": "s"}),
        ("sampling.seed", {"session_id": "s", "sampling": common_pb2.SamplingParams(temperature=1.0)}),
        ("session_id", {"sampling": SEEDED}),
        ("session_id", {"session_id": "s" * 129, "sampling": SEEDED}),
        ("tenant", {"session_id": "s", "sampling": SEEDED, "tenant": "a/b"}),
        ("tenant", {"session_id": "s", "sampling": SEEDED, "tenant": "t" * 65}),
    ],
)
def test_an_incomplete_first_message_is_refused_by_name(
    message: type[Message], field: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_opening(message(**fields))
    assert caught.value.field == field


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("session_id", ["", "s"])
def test_later_messages_may_leave_the_session_out_or_repeat_it(message: type[Message], session_id: str) -> None:
    request = message(session_id=session_id, prefix_len=3, prefix_digest=7, tokens=[1, 2])
    assert read_claim(request, OPENING, 10) == Claim(3, 7, (1, 2))


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("session_id", {"session_id": "other", "tokens": [1]}),
        ("tenant", {"tenant": "other", "tokens": [1]}),
        ("tokens", {"session_id": "s"}),
        ("tokens[1]", {"tokens": [1, 10]}),
    ],
)
def test_a_bad_claim_is_refused_by_name(message: type[Message], field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_claim(message(**fields), OPENING, 10)
    assert caught.value.field == field


@pytest.mark.parametrize("message", MESSAGES)
def test_equal_ids_of_two_tenants_name_two_sessions(message: type[Message]) -> None:
    """No id can be chosen so that it meets one of another tenant, the empty tenant included."""
    pairs = [("", "s"), ("red", "s"), ("blue", "s"), ("", "red/s"), ("red", "/s"), ("red", "blue/s")]
    names = {read_opening(message(session_id=s, tenant=t, sampling=SEEDED)).name for t, s in pairs}
    assert len(names) == len(pairs)
    released = {read_release(common_pb2.ReleaseRequest(session_id=s, tenant=t)) for t, s in pairs}
    assert released == names


@pytest.mark.parametrize("message", MESSAGES)
def test_a_stream_that_begins_with_a_later_round_goes_on_with_an_answer(message: type[Message]) -> None:
    first, later = (read_opening(message(session_id="s", round=n, sampling=SEEDED)).stream for n in (0, 7))
    assert (first.new, later.new) == (True, False)


def test_a_stream_of_a_draft_is_new_wherever_in_the_answer_it_begins() -> None:
    """The first rounds of an answer are often plain: a draft that took a later one for running could refuse nobody."""
    request = draft_pb2.ProposeRequest(session_id="s", round=7, sampling=SEEDED)
    assert read_opening(request, resumable=False).stream.new
    assert not read_opening(request).stream.new
