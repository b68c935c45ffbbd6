"""The first message of a stream fixes session and sampling; every message is a checked claim."""

import pytest

from outrider.errors import InvalidArgument
from outrider.inference.rounds import Opening, read_claim, read_opening
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
    ],
)
def test_an_incomplete_first_message_is_refused_by_name(
    message: type[Message], field: str, fields: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_opening(message(**fields))  # type: ignore[arg-type]
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
        ("tokens", {"session_id": "s"}),
        ("tokens[1]", {"tokens": [1, 10]}),
    ],
)
def test_a_bad_claim_is_refused_by_name(message: type[Message], field: str, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_claim(message(**fields), OPENING, 10)  # type: ignore[arg-type]
    assert caught.value.field == field
