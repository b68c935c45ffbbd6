"""A member is used when it fits and answers; failures back off and one success forgets them."""

import dataclasses
from types import SimpleNamespace
from typing import Any

from orchestrator.member import Member, State
from outrider.errors import DeadlineExceeded, OutriderError, ResourceExhausted, Unavailable
from outrider.wire import LoadFacts, ReplicaFacts
from tests.unit.clock import Clock

FACTS = ReplicaFacts(77, "m", "f", 100, (0,), 512, True, 4096, 4)


class Replica:
    """Answers handshakes with facts, or raises."""

    def __init__(self) -> None:
        self.facts = FACTS
        self.error: OutriderError | None = None
        self.asked = 0

    async def ask(self, channel: Any) -> ReplicaFacts:
        self.asked += 1
        if self.error:
            raise self.error
        return self.facts


def member(replica: Replica, mismatch: str = "") -> Member:
    made = Member("host:1", replica.ask, lambda facts: mismatch)
    nobody: Any = object()  # it is passed on and never called
    line: Any = SimpleNamespace(channel=nobody)
    made.line = line
    return made


async def test_a_member_that_fits_is_ready() -> None:
    made = member(Replica())
    assert (made.state, made.patience.due) == (State.UNAVAILABLE, True)
    await made.handshake()
    assert (made.state, made.reason, made.patience.due) == (State.READY, "", False)
    assert made.facts == FACTS


async def test_a_member_that_does_not_fit_is_refused_with_the_reason_and_asked_again_later(clock: Clock) -> None:
    made = member(Replica(), "tokenizers differ")
    await made.handshake()
    assert (made.state, made.reason) == (State.REFUSED, "tokenizers differ")
    assert not made.patience.due
    clock.now += 10.0
    assert made.patience.due


async def test_failures_in_a_row_double_the_wait_up_to_ten_seconds(clock: Clock) -> None:
    made = member(Replica())
    waits = []
    for _ in range(8):
        made.state = State.READY
        made.failed("gone")
        begin = clock.now
        while not made.patience.due:
            clock.now += 0.125
        waits.append(clock.now - begin)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


async def test_a_success_forgets_earlier_failures(clock: Clock) -> None:
    made = member(Replica())
    for _ in range(5):
        made.failed("gone")
    made.patience.succeeded()
    made.failed("gone again")
    clock.now += 0.25
    assert made.patience.due


async def test_a_handshake_that_fails_is_a_failure_with_its_words() -> None:
    replica = Replica()
    replica.error = Unavailable("connection refused")
    made = member(replica)
    await made.handshake()
    assert (made.state, made.reason, made.patience.due) == (State.UNAVAILABLE, "connection refused", False)


async def test_a_restarted_replica_is_known_by_its_new_facts() -> None:
    replica = Replica()
    made = member(replica)
    await made.handshake()
    made.failed("restarted")
    assert made.state is not State.READY
    replica.facts = dataclasses.replace(FACTS, incarnation=78)
    await made.handshake()
    assert made.facts is not None
    assert (made.facts.incarnation, made.state) == (78, State.READY)


async def test_a_failure_that_many_sessions_notice_is_counted_once() -> None:
    made = member(Replica())
    made.state = State.READY
    for _ in range(8):
        made.failed("gone")
    assert made.patience.backoff_s == 0.25


class Stream:
    """Remembers why it was given up."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def abandon(self, reason: str) -> None:
        self.reasons.append(reason)


async def test_a_member_in_use_is_asked_every_second_and_its_streams_are_given_up_when_it_hangs(clock: Clock) -> None:
    """A process that is stopped keeps its connections: nothing else tells."""
    replica, stream = Replica(), Stream()
    made = member(replica)
    await made.handshake()
    made.streams.add(stream)
    clock.now += 1.0
    assert made.patience.due
    await made.handshake()
    assert (made.state, stream.reasons) == (State.READY, [])
    replica.error = Unavailable("it drains, and ends what it has")
    await made.handshake()
    assert (made.state, stream.reasons) == (State.UNAVAILABLE, [])
    replica.error = DeadlineExceeded("no answer")
    await made.handshake()
    assert (made.state, stream.reasons) == (State.UNAVAILABLE, []), "one alone may be a busy moment"
    await made.handshake()
    assert stream.reasons == ["no answer"]


async def test_whoever_owns_it_hears_of_every_change() -> None:
    heard: list[State] = []
    made = member(Replica())
    made.changed = lambda: heard.append(made.state)
    await made.handshake()
    await made.handshake()
    made.failed("gone")
    assert heard == [State.READY, State.UNAVAILABLE]


async def test_its_load_is_the_sessions_here_or_the_rounds_everywhere() -> None:
    replica = Replica()
    made = member(replica)
    made.streams.update(Stream() for _ in range(3))
    assert made.load == 3
    replica.facts = dataclasses.replace(FACTS, load=LoadFacts(9, 5, 0, 0, 0))
    await made.handshake()
    assert made.load == 5


async def test_one_that_nobody_names_is_leaving_after_its_grace(clock: Clock) -> None:
    """A registry that was emptied is full again before that."""
    made = Member("host:1", Replica().ask, lambda facts: "", grace_s=5.0, state=State.READY)
    made.name(False)
    clock.now += 4.0
    made.name(False)
    assert (made.leaving, made.staying) == (False, True)
    clock.now += 1.0
    assert (made.leaving, made.staying, made.gone) == (True, False, False)
    made.name(True)
    assert made.staying
    made.name(False)
    made.failed("it went")
    assert made.gone, "one that does not answer is not kept"


async def test_one_that_is_full_to_the_last_call_stays_in_use_while_some_are_ours() -> None:
    """Full of calls that others hold open is of no use to anybody here."""
    replica = Replica()
    made = member(replica)
    await made.handshake()
    made.streams.add(Stream())
    replica.error = ResourceExhausted("too many calls")
    await made.handshake()
    assert (made.state, made.patience.due) == (State.READY, False)
    made.streams.clear()
    await made.handshake()
    assert (made.state, made.reason) == (State.UNAVAILABLE, "too many calls")


async def test_whatever_goes_wrong_in_judging_is_a_failure_and_no_end() -> None:
    def judge(facts: ReplicaFacts) -> str:
        raise ZeroDivisionError

    made = member(Replica())
    made.judge = judge
    await made.handshake()
    assert made.state is State.UNAVAILABLE


async def test_an_answer_in_between_says_that_it_does_not_hang(clock: Clock) -> None:
    replica, stream = Replica(), Stream()
    made = member(replica)
    made.streams.add(stream)
    for error in (None, DeadlineExceeded("slow"), None, DeadlineExceeded("slow"), Unavailable("drains")):
        replica.error = error
        await made.handshake()
    assert stream.reasons == []


async def test_an_engine_whose_pass_does_not_end_is_known_though_its_process_answers(clock: Clock) -> None:
    replica, stream = Replica(), Stream()
    made = member(replica)
    await made.handshake()
    made.streams.add(stream)
    replica.facts = dataclasses.replace(FACTS, load=LoadFacts(pass_ms=19_999))
    await made.handshake()
    assert (made.state, stream.reasons) == (State.READY, [])
    replica.facts = dataclasses.replace(FACTS, load=LoadFacts(pass_ms=20_000))
    await made.handshake()
    assert (made.state, len(stream.reasons)) == (State.UNAVAILABLE, 1)
    assert "engine hangs" in made.reason
    states = []
    for facts in (replica.facts, FACTS):
        replica.facts = facts
        await made.handshake()
        states.append(made.state)
    assert states == [State.UNAVAILABLE, State.READY], "as long as it lasts"


async def test_a_failure_of_a_former_time_in_use_changes_nothing() -> None:
    made = member(Replica())
    await made.handshake()
    former = made.term
    made.failed("gone")
    await made.handshake()
    states = []
    for term in (former, made.term):
        made.failed("gone", term)
        states.append(made.state)
    assert states == [State.READY, State.UNAVAILABLE]


async def test_an_answer_that_was_asked_for_before_a_failure_does_not_undo_it(clock: Clock) -> None:
    replica = Replica()
    made = member(replica)
    await made.handshake()

    async def ask(channel: Any) -> ReplicaFacts:
        made.failed("a session lost its stream")
        return FACTS

    made.ask = ask
    await made.handshake()
    assert (made.state, made.patience.due) == (State.UNAVAILABLE, False)
