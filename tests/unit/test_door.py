"""Nobody is inside beyond a limit, nobody waits beside a place that he could have, no tenant holds up another, and
nothing is left behind by whoever goes, however he goes.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.door import Door
from orchestrator.limits import Limits
from outrider.errors import DeadlineExceeded, OutriderError, ResourceExhausted
from tests.unit.clock import Clock

PATIENCE_S = 10.0
RED = {"red": Limits(max_answers=2)}
SLOW = {"red": Limits(tokens_per_s=10.0, burst_tokens=50.0)}


def limits(own: dict[str, Limits]) -> Callable[[str], Limits]:
    return lambda tenant: own.get(tenant, Limits())


def door_of(answers: int, waiting: int = 1000, own: dict[str, Limits] | None = None) -> Door:
    return Door(limits(own or {}), answers, waiting, PATIENCE_S)


async def settle() -> None:
    """Let everything happen that can happen now."""
    for _ in range(6):
        await asyncio.sleep(0)


@dataclass(eq=False)
class Call:
    """A request at a door: it comes, is inside until it is let go, or ends with an error."""

    door: Door
    tenant: str
    time_left_s: float | None = None
    inside: bool = False
    error: OutriderError | None = None
    end: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None]" = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            async with self.door.admitted(self.tenant, self.time_left_s):
                self.inside = True
                await self.end.wait()
        except OutriderError as error:
            self.error = error
        finally:
            self.inside = False

    @property
    def waits(self) -> bool:
        return not (self.task.done() or self.inside)


async def come(door: Door, *tenants: str, time_left_s: float | None = None) -> list[Call]:
    """Calls that have arrived, in this order."""
    calls = [Call(door, tenant, time_left_s) for tenant in tenants]
    await settle()
    return calls


async def go(*calls: Call) -> None:
    for call in calls:
        call.end.set()
    await settle()


async def leave_all(door: Door, calls: Iterable[Call]) -> None:
    """Everybody goes, and nothing is left."""
    for call in calls:
        call.end.set()
        if call.waits:
            call.task.cancel()
    await asyncio.gather(*(call.task for call in calls), return_exceptions=True)
    assert (door.inside, door.waiting, door.tenants) == (0, 0, 0)


def names(calls: Iterable[Call]) -> list[bool]:
    return [call.inside for call in calls]


async def test_so_many_are_let_in_and_the_others_in_their_order() -> None:
    door = door_of(2)
    calls = await come(door, "red", "red", "red", "red")
    assert names(calls) == [True, True, False, False]
    assert (door.inside, door.waiting, door.tenants) == (2, 2, 1)
    await go(calls[1])
    assert names(calls) == [True, False, True, False]
    await leave_all(door, calls)


async def test_a_tenant_at_its_own_limit_leaves_the_other_places_to_others() -> None:
    door = door_of(10, own=RED)
    calls = await come(door, "red", "red", "red", "blue")
    assert names(calls) == [True, True, False, True]
    await go(calls[3])
    assert not calls[2].inside
    await go(calls[0])
    assert calls[2].inside
    await leave_all(door, calls)


async def test_a_place_goes_to_the_tenant_with_the_fewest_inside_and_then_to_whoever_waits_longest() -> None:
    door = door_of(4)
    inside = await come(door, "red", "red", "red", "blue")
    waiting = await come(door, "red", "blue", "green", "white")
    red, blue, green, white = waiting
    await go(inside[0])  # red 2, blue 1, green and white 0
    assert [call for call in waiting if call.inside] == [green]
    await go(inside[1])  # red 1, blue 1, white 0
    assert [call for call in waiting if call.inside] == [green, white]
    await go(green)  # red 1, blue 1
    assert [call for call in waiting if call.inside] == [red, white]
    await go(red)
    assert blue.inside
    await leave_all(door, [*inside, *waiting])


@pytest.mark.parametrize("most_waiting", [1000, 96, 2])
async def test_one_session_against_a_hundred_is_always_the_next(most_waiting: int) -> None:
    """The hundred never stop asking; the one asks ten times, and each time the first place that is free is his, even
    where the hundred had taken all places to wait in."""
    door = door_of(4, most_waiting)
    crowd = await come(door, *["crowd"] * 100)
    for _ in range(10):
        (one,) = await come(door, "one")
        assert one.waits
        assert door.waiting <= most_waiting
        await go(next(call for call in crowd if call.inside))
        assert one.inside
        crowd = [call for call in crowd if not call.task.done()] + await come(door, *["crowd"] * 5)
        await go(one)
        assert door.inside == 4
    await leave_all(door, crowd)


async def test_when_too_many_wait_the_newest_of_the_most_numerous_goes() -> None:
    door = door_of(1, 3)
    calls = await come(door, "white", "red", "red", "red")
    (blue,) = await come(door, "blue")
    assert [call.waits for call in calls] == [False, True, True, False]
    assert blue.waits
    error = calls[3].error
    assert isinstance(error, ResourceExhausted)
    assert "3 requests" in error.message
    assert "OUTRIDER_MAX_WAITING" in error.message
    assert "'red'" in error.message
    assert error.retry_after_s
    (late,) = await come(door, "blue")  # two of red, two of blue: who came last goes
    assert isinstance(late.error, ResourceExhausted)
    assert [call.waits for call in [*calls, blue]] == [False, True, True, False, True]
    await leave_all(door, [*calls, blue, late])


async def test_equals_do_not_push_each_other_out() -> None:
    door = door_of(1, 2)
    calls = await come(door, "a", "b", "c", "d", "e")
    assert [call.waits for call in calls] == [False, True, True, False, False]
    await leave_all(door, calls)


async def test_where_nobody_may_wait_who_finds_no_place_is_refused_at_once() -> None:
    door = door_of(1, 0)
    calls = await come(door, "red", "red", "blue")
    assert names(calls) == [True, False, False]
    assert all(isinstance(call.error, ResourceExhausted) for call in calls[1:])
    assert door.tenants == 1
    await leave_all(door, calls)


@pytest.mark.parametrize(
    ("own", "words"), [({}, "all 2 answers of this orchestrator"), (RED, "all 2 answers of tenant")]
)
async def test_patience_ends_and_says_what_was_full(own: dict[str, Limits], words: str, clock: Clock) -> None:
    door = door_of(3 if own else 2, own=own)
    calls = await come(door, "red", "red", "red")
    clock.now += PATIENCE_S - 0.1
    await settle()
    assert calls[2].waits
    clock.now += 0.2
    await settle()
    error = calls[2].error
    assert isinstance(error, ResourceExhausted)
    assert words in error.message
    assert "'red' has waited 10 s" in error.message
    assert error.retry_after_s == PATIENCE_S / 2
    assert door.waiting == 0
    await leave_all(door, calls)


@pytest.mark.parametrize("time_left_s", [9.0, 0.0, -3.0])
async def test_a_deadline_that_comes_sooner_ends_the_wait(time_left_s: float, clock: Clock) -> None:
    door = door_of(1)
    first = await come(door, "red")
    (late,) = await come(door, "red", time_left_s=time_left_s)
    clock.now += max(0.0, time_left_s) + 0.01
    await settle()
    assert isinstance(late.error, DeadlineExceeded)
    assert "'red'" in late.error.message
    await leave_all(door, [*first, late])


async def test_a_deadline_as_far_away_as_the_end_of_patience_does_not_count(clock: Clock) -> None:
    door = door_of(1)
    first = await come(door, "red")
    (late,) = await come(door, "red", time_left_s=PATIENCE_S)
    clock.now += PATIENCE_S + 0.01
    await settle()
    assert isinstance(late.error, ResourceExhausted)
    await leave_all(door, [*first, late])


async def test_a_place_that_was_given_is_not_taken_back_by_the_end_of_patience_in_the_same_turn(clock: Clock) -> None:
    door = door_of(1)
    first, second = await come(door, "red", "red")
    clock.now += PATIENCE_S + 0.1
    first.end.set()  # its place and the end of the second one's patience come in the same turn of the loop
    await settle()
    assert second.inside != (second.error is not None)
    assert door.inside == int(second.inside)
    await leave_all(door, [first, second])


async def test_who_is_cancelled_while_he_waits_leaves_nothing() -> None:
    door = door_of(1)
    first, second, third = await come(door, "red", "blue", "green")
    second.task.cancel()
    await settle()
    assert (door.waiting, door.tenants) == (1, 2)
    await go(first)
    assert third.inside
    await leave_all(door, [first, second, third])


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_who_is_cancelled_in_the_turn_in_which_he_got_a_place_passes_it_on(cancelled_first: bool) -> None:
    door = door_of(1)
    place = door.admitted("red", None)
    await place.__aenter__()
    second, third = await come(door, "blue", "green")
    if cancelled_first:
        second.task.cancel()
    await place.__aexit__(None, None, None)  # the second one's turn, before his task has run
    if not cancelled_first:
        second.task.cancel()
    await settle()
    assert second.task.cancelled()
    assert third.inside
    assert door.inside == 1
    await leave_all(door, [second, third])


async def test_an_answer_that_breaks_gives_its_place_back() -> None:
    door = door_of(1)
    with pytest.raises(KeyError):
        async with door.admitted("red", None):
            raise KeyError("bug")
    assert (door.inside, door.tenants) == (0, 0)


async def test_a_tenant_in_debt_is_refused_until_it_is_out_of_it_and_others_are_not(clock: Clock) -> None:
    door = door_of(3, own=SLOW)
    (running,) = await come(door, "red")
    door.spent("red", 50)
    assert (await come(door, "red"))[0].inside, "a burst is no debt"
    door.spent("red", 30)
    refused, blue = await come(door, "red", "blue")
    assert isinstance(refused.error, ResourceExhausted)
    assert refused.error.message == "tenant 'red' has used up its 10 tokens per second (tokens_per_s)"
    assert refused.error.retry_after_s == pytest.approx(3.0)
    assert (running.inside, blue.inside) == (True, True)
    clock.now += refused.error.retry_after_s or 0.0
    await go(blue)
    (again,) = await come(door, "red")
    assert again.inside


async def test_who_waits_of_a_tenant_that_comes_into_debt_is_refused(clock: Clock) -> None:
    door = door_of(1, own=SLOW)
    running, red, blue = await come(door, "red", "red", "blue")
    door.spent("red", 60)
    await settle()
    assert isinstance(red.error, ResourceExhausted)
    assert red.error.retry_after_s == pytest.approx(1.0)
    assert (running.inside, blue.waits) == (True, True)
    await go(running)
    assert blue.inside
    await go(blue)


async def test_a_debt_is_remembered_until_it_is_earned_back_and_no_longer(clock: Clock) -> None:
    door = door_of(1, own=SLOW)
    await go(*await come(door, "red"))
    door.spent("red", 100)
    door.forget()
    assert door.tenants == 1
    clock.now += 10.0
    door.forget()
    assert door.tenants == 0


async def test_made_up_names_leave_nothing_behind(clock: Clock) -> None:
    door = Door(lambda tenant: Limits(tokens_per_s=100.0), 1, 2, PATIENCE_S)
    calls = await come(door, *(f"t{i}" for i in range(200)))
    assert door.tenants == 3
    for i in range(200):
        door.spent(f"u{i}", 1)
    await end_of(calls)
    clock.now += 0.02
    door.forget()
    assert door.tenants == 0


async def end_of(calls: list[Call]) -> None:
    for call in calls:
        call.end.set()
    await asyncio.gather(*(call.task for call in calls))


OWN = {"a": Limits(max_answers=1), "b": Limits(max_answers=2, tokens_per_s=10.0, burst_tokens=20.0)}
TENANTS = st.sampled_from(["a", "b", "c", "d"])
WHICH = st.integers(0, 30)
STEPS = st.one_of(
    st.tuples(st.just("come"), TENANTS, st.sampled_from([None, 0.0, 3.0, 30.0])),
    st.tuples(st.just("go"), WHICH),
    st.tuples(st.just("cancel"), WHICH),
    st.tuples(st.just("time"), st.sampled_from([0.5, 3.0, 11.0])),
    st.tuples(st.just("spend"), TENANTS, st.integers(1, 30)),
)


class World:
    """A door, everybody who ever came to it, and what has to hold between two turns of the loop."""

    def __init__(self, clock: Clock, answers: int, waiting: int) -> None:
        self.clock, self.answers, self.most_waiting = clock, answers, waiting
        self.door = door_of(answers, waiting, OWN)
        self.calls: list[Call] = []

    def do(self, step: tuple[object, ...]) -> None:
        """One step, with nothing that would let the loop turn."""
        match step:
            case "come", str(tenant), time_left_s:
                assert time_left_s is None or isinstance(time_left_s, float)
                self.calls.append(Call(self.door, tenant, time_left_s))
            case "go", int(which) if self.calls:
                self.calls[which % len(self.calls)].end.set()
            case "cancel", int(which) if self.calls:
                self.calls[which % len(self.calls)].task.cancel()
            case "time", float(seconds):
                self.clock.now += seconds
            case "spend", str(tenant), int(tokens):
                self.door.spent(tenant, tokens)

    def inside(self, tenant: str) -> int:
        return sum(call.inside for call in self.calls if call.tenant == tenant)

    def full(self, tenant: str) -> bool:
        return 0 < OWN.get(tenant, Limits()).max_answers <= self.inside(tenant)

    def check_limits(self) -> None:
        """Holds in every turn."""
        assert self.door.inside <= self.answers
        assert self.door.waiting <= self.most_waiting
        for tenant, own in OWN.items():
            assert self.inside(tenant) <= own.max_answers

    def check_books(self) -> None:
        """Holds whenever everything has happened that could."""
        waiting = [call for call in self.calls if call.waits]
        assert self.door.inside == sum(call.inside for call in self.calls)
        assert self.door.waiting == len(waiting)
        if self.door.inside < self.answers:
            assert all(self.full(call.tenant) for call in waiting), "somebody waits beside a place that he could have"
        assert all(call.error or call.end.is_set() or call.task.cancelled() for call in self.calls if call.task.done())
        self.door.forget()
        busy = {call.tenant for call in self.calls if call.inside or call.waits}
        assert self.door.tenants <= len(busy | {"b"})

    async def end(self) -> None:
        for call in self.calls:
            call.end.set()
        await settle()
        while self.door.waiting:
            self.clock.now += PATIENCE_S + 1
            await settle()
        self.clock.now += 1000.0
        self.door.forget()
        assert (self.door.inside, self.door.waiting, self.door.tenants) == (0, 0, 0)
        assert all(call.task.done() for call in self.calls)


async def play(world: World, turns: list[list[tuple[object, ...]]]) -> None:
    for steps in turns:
        for step in steps:
            world.do(step)
        for _ in range(6):
            await asyncio.sleep(0)
            world.check_limits()
        world.check_books()
    await world.end()


CROSSING: list[list[tuple[object, ...]]] = [
    [("come", "c", None), ("come", "d", None), ("come", "d", None)],
    [("time", 11.0), ("come", "a", None), ("cancel", 1)],
]
"""The last one of a tenant is pushed out, the other one is cancelled, and then patience ends, all in one turn."""


@settings(max_examples=400, deadline=None)
@example(1, 2, CROSSING)
@given(st.integers(1, 4), st.integers(0, 4), st.lists(st.lists(STEPS, min_size=1, max_size=5), max_size=12))
def test_whatever_happens_in_one_turn_the_books_are_right(
    answers: int, waiting: int, turns: list[list[tuple[object, ...]]]
) -> None:
    """Steps of one list happen before the loop turns, so places, cancellations and ends of patience meet there."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)

        async def main() -> None:
            broken: list[dict[str, object]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
            await play(World(clock, answers, waiting), turns)
            assert broken == []

        asyncio.run(main())
