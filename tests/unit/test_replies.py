"""Messages to the client carry what the values say, each number by its definition, and text only once."""

import pytest

from orchestrator.answer import FinishReason
from orchestrator.member import Member, State
from orchestrator.plans import Drafter
from orchestrator.recital import Part
from orchestrator.replies import delta, status
from orchestrator.totals import Round
from outrider.v1 import orchestrator_pb2 as pb
from outrider.wire import ReplicaFacts

PART = Part("bc", (1, 2), (-0.5, -1.5))


def done(drafter: Drafter = Drafter.MODEL, emitted: tuple[int, ...] = (1, 2)) -> Round:
    return Round(3, (1, 5), 1, emitted, (-0.5, -1.5), 700, 9000, drafter, prepared=True)


def test_a_delta_says_what_the_round_did() -> None:
    event = delta(PART, done()).delta
    assert event.text == "bc"
    assert list(event.token_ids) == [1, 2]
    assert list(event.logprobs) == [-0.5, -1.5]
    stats = event.round
    assert (stats.round, list(stats.draft_tokens), stats.num_accepted) == (3, [1, 5], 1)
    assert (stats.propose_us, stats.verify_us, stats.prepared) == (700, 9000, True)


@pytest.mark.parametrize("drafter", list(Drafter))
def test_every_drafter_has_a_name_on_the_wire(drafter: Drafter) -> None:
    told = delta(PART, done(drafter)).delta.round.drafter
    assert (told == pb.DRAFTER_UNSPECIFIED) is (drafter is Drafter.NONE)


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_a_name_on_the_wire(state: State) -> None:
    async def ask(channel: object) -> ReplicaFacts:
        raise AssertionError

    member = Member("host:1", ask, lambda facts: "")
    member.state, member.reason = state, "because"
    told = status(member)
    assert pb.ReplicaState.Name(told.state) == f"REPLICA_STATE_{state.name}"
    assert (told.address, told.reason, told.HasField("info")) == ("host:1", "because", False)


def test_every_reason_to_end_has_a_name_on_the_wire() -> None:
    assert {f"FINISH_REASON_{reason.name}" for reason in FinishReason} <= set(pb.FinishReason.keys())
