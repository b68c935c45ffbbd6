"""Sessions stay where they are well, go where others like them are, and no member has much more than its share."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.member import Member, State
from orchestrator.pool import Needs, Pool
from outrider.wire import Numerics, ReplicaFacts

FACTS = ReplicaFacts(77, "m", "f", 100, (0,), 512, True, 4096, 4, weights="w")
OTHER = dataclasses.replace(FACTS, numerics=Numerics(dtype="another"))


class Stream:
    """One that nobody waits for."""

    def abandon(self, reason: str) -> None:
        """Nothing."""


async def _never(channel: Any) -> ReplicaFacts:
    raise AssertionError("nobody asks")


def member(address: str, state: State = State.READY, facts: ReplicaFacts | None = FACTS) -> Member:
    return Member(address, _never, lambda facts: "", state=state, facts=facts)


def pool(count: int) -> Pool:
    made = Pool(member)
    for index in range(count):
        made.add(member(f"host:{index}"))
    return made


def place(pool: Pool, key: str) -> Member:
    """Put a session where the pool says."""
    chosen = pool.choose(key)
    assert chosen is not None
    chosen.streams.add(Stream())
    return chosen


def test_a_session_stays_where_it_is_while_that_is_in_use() -> None:
    made = pool(3)
    for address in ("host:0", "host:1", "host:2"):
        assert made.choose("any", stay=address) is made.at(address)
    stayed = made.at("host:1")
    assert stayed is not None
    stayed.failed("gone")
    assert made.choose("any", stay="host:1") is not stayed


def test_sessions_that_begin_alike_are_together() -> None:
    made = pool(5)
    first = made.choose("the same system prompt")
    assert all(made.choose("the same system prompt") is first for _ in range(10))


@given(st.integers(1, 6), st.lists(st.sampled_from("ab"), min_size=1, max_size=60))
def test_no_member_has_much_more_than_its_share(count: int, keys: list[str]) -> None:
    """Whatever begins alike: at most 1.25 times an equal share, rounded up."""
    made = pool(count)
    for number, key in enumerate(keys):
        place(made, key)
        assert max(m.load for m in made.members) <= math.ceil(1.25 * (number + 1) / count)


@given(st.lists(st.text(max_size=5), min_size=1, max_size=20), st.integers(0, 3))
def test_a_member_that_leaves_moves_its_own_sessions_only(keys: list[str], gone: int) -> None:
    made = pool(4)
    before = {key: made.choose(key) for key in keys}
    made.members[gone].failed("gone")
    for key, chosen in before.items():
        if chosen is not made.members[gone]:
            assert made.choose(key) is chosen


def test_those_that_refused_and_those_out_of_use_are_left_out() -> None:
    made = pool(2)
    assert made.choose("k", avoid={"host:0"}) is made.at("host:1")
    assert made.choose("k", avoid={"host:0", "host:1"}) is None
    made.members[0].failed("gone")
    made.add(member("host:2", State.REFUSED))
    assert made.choose("k") is made.at("host:1")
    assert made.choose("k", stay="host:0") is made.at("host:1")


def test_another_model_never_will_do() -> None:
    """Not even where it is the only one."""
    made = Pool(member)
    made.add(member("host:0", facts=dataclasses.replace(FACTS, weights="another")))
    assert made.choose("k", stay="host:0", needs=Needs(FACTS.weights)) is None
    made.add(member("host:1"))
    assert made.choose("k", stay="host:0", needs=Needs(FACTS.weights)) is made.at("host:1")


def test_the_same_numerics_come_before_the_old_place_and_any_before_none() -> None:
    made = Pool(member)
    made.add(member("host:0", facts=OTHER))
    made.add(member("host:1"))
    assert made.choose("k", stay="host:0", needs=Needs(like=FACTS.numerics)) is made.at("host:1")
    made.members[1].failed("gone")
    assert made.choose("k", needs=Needs(like=FACTS.numerics)) is made.at("host:0")


async def test_it_is_ready_while_one_of_them_is() -> None:
    made = Pool(member)
    assert (made.ready, made.reason, made.facts) == (False, "there is none", None)
    made.add(member("host:0", State.UNAVAILABLE, None))
    assert not made.ready
    made.add(member("host:1"))
    await made.wait()
    made.members[1].failed("it went")
    assert not made.ready
    assert made.reason == "host:0 is away: not asked yet; host:1 is away: it went"
    assert made.facts == FACTS, "what is away may come back"


async def test_a_member_that_nobody_names_any_more_stays_as_long_as_it_is_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A registry that was emptied ends no session, and new ones go elsewhere while there is an elsewhere."""
    opened: list[str] = []
    closed: list[str] = []

    async def close(self: Member) -> None:
        closed.append(self.address)

    monkeypatch.setattr(Member, "open", lambda self: opened.append(self.address))
    monkeypatch.setattr(Member, "close", close)
    made = Pool(member)
    await made.set(["a:1", "b:1"])
    assert made.choose("k", stay="a:1") is made.at("a:1")
    await made.set(["b:1"])
    assert (opened, closed, len(made.members)) == (["a:1", "b:1"], [], 2)
    assert made.choose("k", stay="a:1") is made.at("b:1")
    await made.set([])
    assert made.choose("k", stay="a:1") is made.at("a:1"), "better than none"
    await made.set(["a:1"])
    assert made.choose("k", stay="a:1") is made.at("a:1"), "it is back"
    leaving = made.at("b:1")
    assert leaving is not None
    stream = Stream()
    leaving.streams.add(stream)
    leaving.failed("it drains")
    await made.set(["a:1"])
    assert closed == [], "it ends what it has"
    leaving.streams.discard(stream)
    await made.set(["a:1"])
    assert closed == ["b:1"]
    await made.close()
    assert (closed, made.members, made.ready) == (["b:1", "a:1"], (), False)


def test_limits_are_those_of_the_roomiest_and_of_what_all_in_use_take() -> None:
    made = Pool(member)
    made.add(member("host:0", facts=dataclasses.replace(FACTS, kv_capacity_tokens=64, max_draft_tokens=9, max_run=2)))
    made.add(member("host:1", facts=dataclasses.replace(FACTS, max_draft_tokens=5, max_run=7)))
    made.add(member("host:2", State.UNAVAILABLE, dataclasses.replace(FACTS, max_positions=9999, max_run=0)))
    facts = made.facts
    assert facts is not None
    assert (facts.room, facts.max_draft_tokens, facts.max_run) == (512, 5, 2)
