"""A draft in trouble is left to back off, and another one is asked; a session that does not suit it leaves it alone."""

import dataclasses

import pytest
from opentelemetry.trace import INVALID_SPAN

from orchestrator.draft_link import DraftLink
from orchestrator.member import State
from orchestrator.peers import Proposal
from orchestrator.place import Place
from outrider.errors import (
    DeadlineExceeded,
    InvalidArgument,
    OutriderError,
    ProtocolViolation,
    ResourceExhausted,
    Unavailable,
)
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import common_pb2
from tests.unit.link_members import pool_of, raising, ready
from tests.unit.test_clients import CLAIM, JUNK_BLOCKS, VOCAB, block, options, proposal


async def test_a_proposal_comes_through_and_keeps_the_member_in_use() -> None:
    member, _ = await ready(proposal(block=block(1, 2)))
    link = DraftLink(pool_of(member), Place(), options(), VOCAB)
    assert await link.propose(0, CLAIM, 3, INVALID_SPAN) == Proposal((1, 2), 5)
    assert (member.state, link.available) == (State.READY, True)


FAULTS = {**JUNK_BLOCKS, "gone": raising(Unavailable("gone")), "a bug": raising(OutriderError("bug"))}


@pytest.mark.parametrize("kind", FAULTS)
async def test_a_draft_in_trouble_is_not_used_until_it_was_asked_again(kind: str) -> None:
    member, channel = await ready(FAULTS[kind])
    link = DraftLink(pool_of(member), Place(), options(), VOCAB)
    with pytest.raises((Unavailable, ProtocolViolation, OutriderError)):
        await link.propose(0, CLAIM, 3, INVALID_SPAN)
    assert (member.state, link.available, channel.call.cancelled) == (State.UNAVAILABLE, False, True)
    await member.handshake()
    assert link.available


async def test_a_miss_is_no_success_and_one_of_the_empty_prefix_is_a_fault() -> None:
    """A draft that misses for ever is left alone longer each time."""
    member, _ = await ready(proposal(cache_miss=common_pb2.CacheMiss(cached_len=0)))
    link = DraftLink(pool_of(member), Place(), options(), VOCAB)
    waits = []
    for _ in range(3):
        assert await link.propose(0, CLAIM, 3, INVALID_SPAN) == CacheMiss(0)
        with pytest.raises(ProtocolViolation):
            await link.propose(0, Claim(0, 0, (5,)), 3, INVALID_SPAN)
        waits.append(member.patience.backoff_s)
        await member.handshake()
    assert waits == [waits[0], 2 * waits[0], 4 * waits[0]]


async def test_a_deadline_that_only_the_draft_sees_is_its_own_fault() -> None:
    member, _ = await ready(raising(DeadlineExceeded("so it says")))
    with pytest.raises(DeadlineExceeded):
        await DraftLink(pool_of(member), Place(), options(), VOCAB).propose(0, CLAIM, 3, INVALID_SPAN)
    assert member.state is State.UNAVAILABLE


@pytest.mark.parametrize("error", [InvalidArgument("tokens", "too long"), ResourceExhausted("full")])
async def test_a_draft_that_one_session_does_not_suit_stays_with_the_others(error: OutriderError) -> None:
    member, _ = await ready(raising(error))
    link, other = (
        DraftLink(pool_of(member), Place(), options(), VOCAB),
        DraftLink(pool_of(member), Place(), options(), VOCAB),
    )
    with pytest.raises(type(error)):
        await link.propose(0, CLAIM, 3, INVALID_SPAN)
    assert (member.state, link.available, other.available) == (State.READY, False, True)


async def test_a_request_whose_time_is_over_opens_no_stream_and_blames_nobody() -> None:
    member, channel = await ready(proposal(block=block(1)))
    link = DraftLink(pool_of(member), Place(), dataclasses.replace(options(), deadline_s=0.0), VOCAB)
    with pytest.raises(DeadlineExceeded):
        await link.propose(0, CLAIM, 3, INVALID_SPAN)
    assert (member.state, channel.call.sent) == (State.READY, [])


async def test_closing_a_link_that_never_opened_is_nothing() -> None:
    member, _ = await ready(proposal(block=block(1)))
    DraftLink(pool_of(member), Place(), options(), VOCAB).close()


async def test_an_id_beyond_the_targets_vocabulary_is_junk_whatever_the_draft_says_of_itself() -> None:
    member, _ = await ready(proposal(block=block(1, VOCAB - 1)))
    link = DraftLink(pool_of(member), Place(), options(), VOCAB - 1)
    with pytest.raises(ProtocolViolation):
        await link.propose(0, CLAIM, 3, INVALID_SPAN)


@pytest.mark.parametrize("kind", FAULTS)
async def test_another_draft_is_asked_after_one_in_trouble(kind: str) -> None:
    bad, _ = await ready(FAULTS[kind], "host:1")
    good, _ = await ready(proposal(block=block(1, 2)), "host:2")
    link = DraftLink(pool_of(bad, good), Place(address="host:1"), options(), VOCAB)
    with pytest.raises(OutriderError):
        await link.propose(0, CLAIM, 3, INVALID_SPAN)
    assert link.available
    assert await link.propose(1, CLAIM, 3, INVALID_SPAN) == Proposal((1, 2), 5)


async def test_a_draft_that_another_session_found_in_trouble_is_left() -> None:
    first, _ = await ready(proposal(block=block(1, 2)), "host:1")
    second, _ = await ready(proposal(block=block(1, 2)), "host:2")
    place = Place(address="host:1")
    link = DraftLink(pool_of(first, second), place, options(), VOCAB)
    await link.propose(0, CLAIM, 3, INVALID_SPAN)
    first.failed("somebody said so")
    await link.propose(1, CLAIM, 3, INVALID_SPAN)
    assert (place.address, len(first.streams), len(second.streams)) == ("host:2", 0, 1)
