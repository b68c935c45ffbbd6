"""Values and messages say the same."""

import pytest

from outrider.client import Ask, Drafter, FinishReason, Message
from outrider.client.messages import ask_to_pb, delta_from_pb, finished_from_pb
from outrider.sampling import SamplingParams
from outrider.v1 import orchestrator_pb2 as pb


@pytest.mark.parametrize(
    ("draft_tokens", "mode", "tokens"),
    [
        (None, pb.SPECULATION_MODE_AUTO, 0),
        (0, pb.SPECULATION_MODE_OFF, 0),
        (3, pb.SPECULATION_MODE_FIXED, 3),
    ],
)
def test_wishes_for_speculation(draft_tokens: int | None, mode: pb.SpeculationMode, tokens: int) -> None:
    sent = ask_to_pb(Ask(prompt="a", draft_tokens=draft_tokens), 1, "").speculation
    assert (sent.mode, sent.draft_tokens) == (mode, tokens)


def test_each_kind_of_input() -> None:
    assert ask_to_pb(Ask(prompt="a"), 1, "").prompt == "a"
    assert list(ask_to_pb(Ask(token_ids=(1, 2)), 1, "").token_ids.ids) == [1, 2]
    chat = ask_to_pb(Ask.user("a", "b"), 1, "").chat.messages
    assert [Message(each.role, each.content) for each in chat] == [Message("system", "b"), Message("user", "a")]
    assert ask_to_pb(Ask(messages=()), 1, "").WhichOneof("input") == "chat", "that it is empty is the server's to say"


def test_sampling_and_the_seed_that_counts() -> None:
    sent = ask_to_pb(Ask(prompt="a", sampling=SamplingParams(0.5, 4, 0.75, 0.25, seed=9)), 7, "").sampling
    assert (sent.temperature, sent.top_k, sent.top_p, sent.min_p, sent.seed) == (0.5, 4, 0.75, 0.25, 7)


def test_what_the_server_chooses_is_left_unset() -> None:
    request = ask_to_pb(Ask(prompt="a"), 1, "")
    assert not request.HasField("max_new_tokens")
    assert not request.session_id


def test_events() -> None:
    stats = pb.RoundStats(round=2, draft_tokens=[4], num_accepted=1, drafter=pb.DRAFTER_NGRAM, prepared=True)
    delta = delta_from_pb(pb.Delta(text="a", token_ids=[1], logprobs=[-0.5], round=stats))
    assert (delta.text, delta.token_ids, delta.logprobs) == ("a", (1,), (-0.5,))
    assert delta.round is not None
    assert (delta.round.number, delta.round.drafter, delta.round.prepared) == (2, Drafter.NGRAM, True)
    assert delta_from_pb(pb.Delta(text="a")).round is None
    finished = finished_from_pb(pb.Finished(reason=pb.FINISH_REASON_STOP, numerics_changed=True), "session", 2)
    assert (finished.reason, finished.numerics_changed, finished.losses) == (FinishReason.STOP, True, 2)
    assert finished_from_pb(pb.Finished(), "session", 0).reason is FinishReason.UNKNOWN, "of a newer server"
