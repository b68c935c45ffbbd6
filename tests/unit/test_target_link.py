"""A target in trouble is left for another one, or waited for, as long as patience lasts."""

import asyncio
import dataclasses

import grpc
import pytest
from opentelemetry.trace import INVALID_SPAN

from orchestrator.member import State
from orchestrator.peers import Verdict
from orchestrator.place import Place
from orchestrator.pool import Needs
from orchestrator.target_link import TargetLink
from outrider.errors import Cancelled, NonFiniteLogits, OutriderError, ProtocolViolation, ResourceExhausted, Unavailable
from outrider.v1 import target_pb2
from outrider.wire import Numerics, ReplicaFacts
from tests.unit.link_members import pool_of, raising, ready
from tests.unit.test_clients import BLOCK, CLAIM, FACTS, VOCAB, Answer, block, judged, options, proposal, verdict
from tests.unit.test_status import bare
from tests.waiting import eventually

NEEDS = Needs(FACTS.weights)


@pytest.mark.parametrize("code", [grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL])
async def test_a_target_whose_call_breaks_is_asked_again(code: grpc.StatusCode) -> None:
    answers = [lambda request: bare(code, "broke"), verdict(verdict=judged(1))]
    member, channel = await ready(lambda request: answers.pop(0)(request))
    waiting = asyncio.create_task(
        TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS).verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    )
    await eventually(lambda: member.state is not State.READY, "the link has noticed")
    await member.handshake()
    assert isinstance(await waiting, Verdict)
    assert len(channel.call.sent) == 2


async def test_a_lost_target_is_waited_for_and_asked_again() -> None:
    answers = [raising(Unavailable("gone")), verdict(verdict=judged(1))]
    member, channel = await ready(lambda request: answers.pop(0)(request))
    link = TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS)
    waiting = asyncio.create_task(link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN))
    await eventually(lambda: member.state is not State.READY, "the link has noticed")
    assert not waiting.done()
    await member.handshake()
    answer = await waiting
    assert isinstance(answer, Verdict)
    assert (answer.num_accepted, len(channel.call.sent)) == (1, 2)


async def test_patience_ends_with_the_reason_and_a_delay() -> None:
    member, _ = await ready(raising(Unavailable("gone")))
    link = TargetLink(pool_of(member), Place(), options(), 0.02, NEEDS)
    with pytest.raises(Unavailable, match="gone") as caught:
        await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert caught.value.retry_after_s == 1.0
    assert member.state is State.UNAVAILABLE


async def test_an_error_of_the_request_itself_is_not_retried() -> None:
    member, channel = await ready(raising(NonFiniteLogits("position 7")))
    with pytest.raises(NonFiniteLogits):
        link = TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS)
        await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert len(channel.call.sent) == 1
    assert member.state is State.READY


async def test_a_target_that_names_a_token_that_does_not_exist_is_not_blamed_on_the_client() -> None:
    member, _ = await ready(verdict(verdict=target_pb2.Verdict(num_accepted=0, next_token=VOCAB, cached_len=5)))
    with pytest.raises(ProtocolViolation):
        link = TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS)
        await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)


async def test_closing_a_link_that_never_opened_is_nothing() -> None:
    member, _ = await ready(proposal(block=block(1)))
    TargetLink(pool_of(member), Place(), options(), 1.0, NEEDS).close()


async def test_waiting_for_a_lost_target_does_not_keep_it_from_being_asked_again() -> None:
    member, _ = await ready(proposal())
    member.failed("gone")
    before = member.patience.asks_at
    link = TargetLink(pool_of(member), Place(), options(), 0.01, NEEDS)
    for _ in range(5):
        with pytest.raises(Unavailable, match="is away: gone"):
            await link.verify(0, CLAIM, (), 0, INVALID_SPAN)
    assert (member.patience.asks_at, member.reason) == (before, "gone")


async def test_a_target_without_room_refuses_a_new_answer_with_its_delay() -> None:
    member, channel = await ready(raising(ResourceExhausted("full", retry_after_s=3.0)))
    with pytest.raises(ResourceExhausted, match="full") as caught:
        link = TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS)
        await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert (caught.value.retry_after_s, len(channel.call.sent), member.state) == (3.0, 1, State.READY)


async def test_a_running_answer_is_asked_again_when_a_target_has_no_room_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestrator.target_link._NO_ROOM_S", 0.0)
    answers = [raising(ResourceExhausted("full")), raising(ResourceExhausted("full")), verdict(verdict=judged(1))]
    member, channel = await ready(lambda request: answers.pop(0)(request))
    link = TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS)
    answer = await link.verify(7, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert isinstance(answer, Verdict)
    assert (len(channel.call.sent), member.state) == (3, State.READY)


async def test_patience_with_a_target_that_never_has_room_ends() -> None:
    member, _ = await ready(raising(ResourceExhausted("full")))
    with pytest.raises(ResourceExhausted):
        link = TargetLink(pool_of(member), Place(), options(), 0.0, NEEDS)
        await link.verify(7, CLAIM, BLOCK, 0, INVALID_SPAN)


OTHER = dataclasses.replace(FACTS, numerics=Numerics(dtype="another"))


@pytest.mark.parametrize(
    "answer",
    [raising(Unavailable("gone")), raising(ResourceExhausted("full")), verdict(verdict=judged(99))],
    ids=["gone", "full", "junk"],
)
async def test_another_target_goes_on_at_once(answer: Answer) -> None:
    """Where the session was does not suit it any more: the answer of the other one is taken, and it stays there."""
    bad, _ = await ready(answer, "host:1")
    good, channel = await ready(verdict(verdict=judged(1)), "host:2")
    place = Place(address="host:1")
    link = TargetLink(pool_of(bad, good), place, options(), 5.0, NEEDS)
    for number in (0, 1):
        assert isinstance(await link.verify(number, CLAIM, BLOCK, 0, INVALID_SPAN), Verdict)
    assert (place.address, link.crossed, len(channel.call.sent)) == ("host:2", False, 2)
    assert (len(bad.streams), len(good.streams)) == (0, 1)
    link.close()
    assert not good.streams


async def test_an_answer_goes_on_where_the_bits_are_the_same_if_it_can() -> None:
    answers = [verdict(verdict=judged(1)), raising(Unavailable("gone"))]
    first, _ = await ready(lambda request: answers.pop(0)(request), "host:1")
    others = [(await ready(verdict(verdict=judged(1)), f"host:{n}", facts))[0] for n, facts in ((2, OTHER), (3, FACTS))]
    place = Place(address="host:1")
    link = TargetLink(pool_of(first, *others), place, options(), 5.0, NEEDS)
    for number in (0, 1):
        await link.verify(number, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert (place.address, link.crossed) == ("host:3", False)
    others[1].failed("gone too")
    link.close()
    await link.verify(2, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert (place.address, link.crossed) == ("host:2", True)


@pytest.mark.parametrize(("facts", "place"), [(FACTS, "host:2"), (OTHER, "host:1")])
async def test_a_target_that_drains_is_left_between_rounds_for_one_of_its_numerics(
    facts: ReplicaFacts, place: str
) -> None:
    """Another one would change bits, and this one ends what it has."""
    first, _ = await ready(verdict(verdict=judged(1)), "host:1")
    second, _ = await ready(verdict(verdict=judged(1)), "host:2", facts)
    where = Place(address="host:1")
    link = TargetLink(pool_of(first, second), where, options(), 5.0, NEEDS)
    await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    first.unnamed_since = 0.0
    await link.verify(1, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert (where.address, link.crossed) == (place, False)


async def test_a_running_answer_waits_for_its_own_model() -> None:
    """Another one would go on with other tokens."""
    first, _ = await ready(verdict(verdict=judged(1)), "host:1")
    other, channel = await ready(verdict(verdict=judged(1)), "host:2", dataclasses.replace(FACTS, weights="another"))
    link = TargetLink(pool_of(first, other), Place(address="host:1"), options(), 0.05, NEEDS)
    await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    first.failed("gone")
    link.close()
    with pytest.raises(Unavailable, match="no target for this answer: host:1 is away: gone"):
        await link.verify(1, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert channel.call.sent == []


async def test_patience_that_one_target_has_used_up_does_not_keep_a_round_from_the_others() -> None:
    """And each is asked once: those that hang as well end the round."""
    hung = [(await ready(raising(Unavailable("silence")), f"host:{n}"))[0] for n in (1, 2)]
    good, _ = await ready(verdict(verdict=judged(1)), "host:3")
    link = TargetLink(pool_of(*hung, good), Place(address="host:1"), options(), 0.0, NEEDS)
    assert isinstance(await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN), Verdict)
    again = TargetLink(pool_of(hung[0]), Place(), options(), 0.0, NEEDS)
    await hung[0].handshake()
    with pytest.raises(Unavailable, match="silence"):
        await again.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)


@pytest.mark.parametrize("error", [NonFiniteLogits("position 7"), OutriderError("the forward pass failed")])
async def test_what_may_be_the_targets_own_fault_is_tried_elsewhere_and_the_guilty_one_is_left(
    error: OutriderError,
) -> None:
    poisoned, _ = await ready(raising(error), "host:1")
    good, _ = await ready(verdict(verdict=judged(1)), "host:2")
    link = TargetLink(pool_of(poisoned, good), Place(address="host:1"), options(), 5.0, NEEDS)
    assert isinstance(await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN), Verdict)
    assert (poisoned.state, poisoned.reason, good.state) == (State.UNAVAILABLE, error.message, State.READY)


async def test_what_every_target_says_is_for_the_request() -> None:
    members = [(await ready(raising(NonFiniteLogits("position 7")), f"host:{n}"))[0] for n in (1, 2)]
    link = TargetLink(pool_of(*members), Place(), options(), 5.0, NEEDS)
    with pytest.raises(NonFiniteLogits):
        await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert all(member.state is State.READY for member in members), "others may be served"


async def test_an_answer_goes_where_all_of_it_has_room() -> None:
    small, _ = await ready(verdict(verdict=judged(1)), "host:1", dataclasses.replace(FACTS, kv_capacity_tokens=64))
    large, _ = await ready(verdict(verdict=judged(1)), "host:2")
    place = Place(address="host:1")
    link = TargetLink(pool_of(small, large), place, options(), 0.0, Needs(FACTS.weights, 65))
    await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert place.address == "host:2"


async def test_a_stream_of_a_former_time_says_nothing_of_a_target_that_is_back() -> None:
    """It broke when the target went; another answer has noticed that, and the target has come back since."""
    answers = [verdict(verdict=judged(1)), raising(Unavailable("gone")), verdict(verdict=judged(1))]
    member, _ = await ready(lambda request: answers.pop(0)(request))
    link = TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS)
    await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    member.failed("gone")
    await member.handshake()
    assert isinstance(await link.verify(1, CLAIM, BLOCK, 0, INVALID_SPAN), Verdict)
    assert member.state is State.READY


async def test_an_answer_that_is_resumed_prefers_the_numerics_that_it_began_with_and_says_when_it_has_others() -> None:
    """Tokens that were told before cannot be compared any more."""
    first, _ = await ready(verdict(verdict=judged(1)), "host:1")
    other, _ = await ready(verdict(verdict=judged(1)), "host:2", OTHER)
    needs = Needs(FACTS.weights, like=OTHER.numerics)
    link = TargetLink(pool_of(first, other), Place(address="host:1"), options(), 5.0, needs)
    await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert (link.crossed, link.numerics, len(other.streams)) == (False, OTHER.numerics, 1)
    alone = TargetLink(pool_of(first), Place(), options(), 5.0, needs)
    await alone.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
    assert alone.crossed


async def test_a_round_that_a_target_gives_up_is_asked_for_again_and_nobody_is_blamed() -> None:
    answers = [raising(Cancelled("the round was cancelled")), verdict(verdict=judged(1))]
    member, _ = await ready(lambda request: answers.pop(0)(request))
    link = TargetLink(pool_of(member), Place(), options(), 5.0, NEEDS)
    assert isinstance(await link.verify(0, CLAIM, BLOCK, 0, INVALID_SPAN), Verdict)
    assert member.state is State.READY
    always, _ = await ready(raising(Cancelled("the round was cancelled")))
    with pytest.raises(Cancelled):
        await TargetLink(pool_of(always), Place(), options(), 5.0, NEEDS).verify(0, CLAIM, BLOCK, 0, INVALID_SPAN)
