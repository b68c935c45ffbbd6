"""Who starts, who waits, who is refused and who gives up blocks; and that every running answer ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import InvalidArgument, ResourceExhausted
from outrider.inference.admission import STALLED_S, AdmissionLimits
from outrider.inference.engine import Engine, EngineOptions
from outrider.inference.job import Job
from outrider.inference.stream import Stream
from outrider.tokens import CacheMiss
from tests.unit.scripted import VOCAB, Inbox, ScriptedRunner, Steps, claim_of, continuation, submit

QUEUE_S = 5.0
BLOCK = ScriptedRunner.block_size


@dataclass
class World:
    """An engine with a clock that the test moves."""

    blocks: int = 8
    max_waiting: int = 64
    max_positions: int = 200
    now: float = 0.0
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        runner = ScriptedRunner(num_blocks=self.blocks, max_positions=self.max_positions)
        options = EngineOptions(admission=AdmissionLimits(self.max_waiting, QUEUE_S))
        self.engine = Engine(runner, options, clock=lambda: self.now)

    def step(self) -> None:
        self.engine.step()
        self.engine.sessions.check_integrity()

    def held_by(self, name: str) -> int:
        session = self.engine.sessions.get(name)
        return len(session.table.blocks) if session else 0


@dataclass
class Answer:
    """One answer as the orchestrator makes it: a stream, and rounds of one token that follow its misses."""

    world: World
    name: str
    tokens: list[int]
    goal: int = 50
    stream: Stream = field(default_factory=Stream)
    cached: int = 0
    misses: int = 0
    inbox: Inbox | None = None
    job: Job | None = None

    def ask(self) -> "Answer":
        """Send the next round."""
        assert self.inbox is None
        claim = claim_of(self.tokens, min(self.cached, len(self.tokens) - 1))
        self.job, self.inbox = submit(self.world.engine, self.name, claim, Steps(), stream=self.stream)
        return self

    def read(self) -> bool:
        """Take the answer to the round, if it is there; a miss is asked again."""
        if self.inbox is None or not self.inbox.delivered:
            return False
        outcome = self.inbox.outcome
        self.inbox, self.cached = None, outcome.cached_len
        if isinstance(outcome.result, CacheMiss):
            self.misses += 1
            self.ask()
            return False
        self.tokens.append(outcome.result[0])
        return True

    def round(self) -> "Answer":
        """One round from beginning to end, misses included."""
        self.ask()
        for _ in range(5):
            self.world.step()
            if self.read():
                return self
        raise AssertionError(f"a round of {self.name} does not end")

    @property
    def error(self) -> Exception:
        assert self.inbox is not None
        return self.inbox.error

    @property
    def waits(self) -> bool:
        return self.inbox is not None and not self.inbox.delivered


def prompt(first: int, blocks: int) -> list[int]:
    """A prompt that shares nothing with others and whose next token stays within this many blocks."""
    return [first, *([first + 1] * (blocks * BLOCK - 2))]


def answers(world: World, *blocks: int) -> list[Answer]:
    """Answers that are running, the oldest first, of prompts of so many blocks."""
    streams = [Stream(resumed=True) for _ in blocks]  # may fill the cache to the last block
    prompts = [prompt(2 * i, count) for i, count in enumerate(blocks)]
    made = [Answer(world, f"r{i}", prompts[i], stream=stream) for i, stream in enumerate(streams)]
    return [one.round() for one in made]


@pytest.mark.parametrize(
    ("tokens", "told"), [(33, "33 tokens, more than the 32 of the KV"), (25, "25 tokens, more than the 24 pos")]
)
def test_what_can_never_fit_is_refused_at_once_with_the_limit(tokens: int, told: str) -> None:
    world = World(blocks=8, max_positions=24 if tokens == 25 else 200)
    error = Answer(world, "a", [1] * tokens).ask()
    world.step()
    assert isinstance(error.error, InvalidArgument)
    assert (error.error.field, told in str(error.error)) == ("tokens", True)
    assert len(world.engine.sessions) == 0


def test_a_new_session_waits_until_a_running_answer_has_ended() -> None:
    world = World(blocks=8)
    running = answers(world, 3, 3)
    new = Answer(world, "new", prompt(20, 3)).ask()
    for _ in range(5):
        world.step()
    assert new.waits
    running[0].stream.open = False
    world.step()
    assert new.read()
    assert (world.held_by("r0"), world.held_by("r1"), new.misses) == (0, 3, 0)


def test_a_new_session_is_refused_with_a_delay_when_its_time_in_the_queue_is_over() -> None:
    world = World(blocks=8)
    running = answers(world, 4, 3)
    new = Answer(world, "new", prompt(20, 3)).ask()
    world.step()
    world.now = QUEUE_S - 0.1
    world.step()
    assert new.waits
    world.now = QUEUE_S
    running[0].round()
    assert isinstance(new.error, ResourceExhausted)
    assert new.error.retry_after_s is not None
    assert world.engine.idle


def test_only_so_many_new_sessions_wait_the_first_that_came() -> None:
    world = World(blocks=8, max_waiting=2)
    answers(world, 4, 3)
    new = [Answer(world, f"n{i}", prompt(20, 3)).ask() for i in range(4)]
    world.step()
    assert [one.waits for one in new] == [True, True, False, False]
    assert all(isinstance(one.error, ResourceExhausted) for one in new[2:])


def test_any_number_of_new_sessions_that_fit_starts_at_once() -> None:
    world = World(blocks=20, max_waiting=0)
    new = [Answer(world, f"n{i}", [i, 7]).ask() for i in range(10)]
    world.step()
    assert all(one.read() for one in new)


def test_a_new_session_leaves_each_running_one_a_block_to_grow_into() -> None:
    world = World(blocks=8)
    answers(world, 2, 2)
    new = Answer(world, "new", prompt(20, 3)).ask()
    world.step()
    assert new.waits, "3 of the 4 free blocks would leave 1 for 2"
    small = World(blocks=9)
    answers(small, 2, 2)
    Answer(small, "new", prompt(20, 3)).round()


def test_new_sessions_start_in_the_order_in_which_they_came() -> None:
    """A small one does not overtake a large one: the large one would never start."""
    world = World(blocks=8)
    running = answers(world, 3, 3)
    large, small = Answer(world, "large", prompt(20, 3)).ask(), Answer(world, "small", [9]).ask()
    world.step()
    assert (large.waits, small.waits) == (True, True)
    running[1].stream.open = False
    world.step()
    assert large.read()


def test_a_new_session_that_missed_keeps_its_place_in_the_queue() -> None:
    world = World(blocks=8)
    running = answers(world, 4, 3)
    first = Answer(world, "first", prompt(20, 3)).ask()
    world.step()
    since = first.stream.waiting_since
    first.inbox, first.cached = None, 2
    world.now = 1.0
    assert first.job is not None
    first.job.cancelled = True
    second = Answer(world, "second", prompt(22, 3)).ask()
    first.ask()
    world.step()
    assert (first.read(), first.misses, first.stream.waiting_since) == (False, 1, since)
    running[0].stream.open = False
    world.step()
    assert (first.read(), second.waits) == (True, True)


def test_a_running_session_takes_blocks_from_unused_sessions_first() -> None:
    world = World(blocks=8)
    old, middle, young = answers(world, 2, 3, 3)
    young.stream.open = False
    old.tokens += [1] * 9
    old.round()
    assert (world.held_by("r0"), world.held_by("r1"), world.held_by("r2")) == (5, 3, 0)
    assert (middle.round().misses, old.misses) == (0, 0)


def test_then_from_younger_running_sessions_the_youngest_first() -> None:
    world = World(blocks=9)
    old, middle, young = answers(world, 3, 3, 3)
    old.tokens += [1] * 4
    old.round()
    assert (world.held_by("r1"), world.held_by("r2")) == (3, 0)
    assert middle.round().misses == 0
    old.stream.open = False
    assert young.round().misses == 1, "it is rebuilt when there is room again"


def test_a_younger_running_session_waits_for_the_older_ones_and_then_takes_a_round() -> None:
    """It is never refused, whatever the queue's bounds say; until it is overdue the older ones keep their blocks."""
    world = World(blocks=8, max_waiting=0)
    old, young = answers(world, 5, 2)
    young.tokens += [1] * 7
    young.ask()
    for _ in range(3):
        old.round()
    assert (old.misses, young.waits) == (0, True)
    world.now = QUEUE_S
    world.step()
    assert young.read()
    assert (old.round().misses, world.held_by("r0")) == (1, 6), "the older one takes them back at once"


def test_while_an_older_session_waits_for_rounds_to_end_no_younger_one_starts() -> None:
    """Otherwise younger rounds that follow each other would keep its blocks for ever."""
    world = World(blocks=9)
    old, first, second = answers(world, 2, 3, 3)
    submit(world.engine, "r1", claim_of(first.tokens, first.cached), Steps(growth=3), stream=first.stream)
    world.step()
    old.tokens += [1] * 15
    old.ask()
    second.ask()
    world.step()
    assert (old.waits, second.waits) == (True, True)
    for _ in range(4):
        world.step()
    assert old.read()


def test_new_sessions_wait_behind_running_ones() -> None:
    world = World(blocks=8)
    old, young = answers(world, 3, 3)
    submit(world.engine, "r1", claim_of(young.tokens, young.cached), Steps(growth=3), stream=young.stream)
    world.step()
    new = Answer(world, "new", [30]).ask()
    old.tokens += [1] * 13
    old.ask()
    world.step()
    assert (old.waits, new.waits) == (True, True)


def test_an_answer_that_began_elsewhere_is_never_refused() -> None:
    world = World(blocks=8, max_waiting=0)
    answers(world, 4, 3)
    moved = Answer(world, "moved", prompt(20, 3), stream=Stream(resumed=True)).ask()
    world.step()
    assert moved.waits
    world.now = QUEUE_S
    world.step()
    assert moved.read()


def test_a_stream_that_says_nothing_for_long_does_not_keep_others_out() -> None:
    world = World(blocks=8)
    answers(world, 4, 3)
    world.now = STALLED_S
    assert Answer(world, "new", prompt(20, 3)).round().misses == 0


def test_a_cancelled_round_leaves_the_queue() -> None:
    world = World(blocks=8)
    answers(world, 4, 3)
    new = Answer(world, "new", prompt(20, 3)).ask()
    world.step()
    assert new.job is not None
    new.job.cancelled = True
    world.step()
    assert world.engine.idle


def test_a_prefix_that_is_there_needs_no_room() -> None:
    world = World(blocks=8)
    running = answers(world, 5)
    twin = Answer(world, "twin", [*running[0].tokens[:16], 30, 30]).round()
    assert (world.engine.pool.held, twin.misses) == (6, 0)


def play(world: World, playing: Sequence[Answer], most: int = 5000) -> int:
    """Let answers run to their goals, side by side; returns the steps that it took."""
    for number in range(most):
        for one in playing:
            if one.read() or one.inbox is None:
                if len(one.tokens) < one.goal and one.inbox is None:
                    one.ask()
                elif len(one.tokens) >= one.goal:
                    one.stream.open = False
        if all(len(one.tokens) >= one.goal for one in playing):
            return number
        world.now += 0.01
        world.step()
    raise AssertionError(f"no end after {most} steps: {[(one.name, len(one.tokens)) for one in playing]}")


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 30)), min_size=1, max_size=8),
    st.integers(8, 12),
)
@settings(max_examples=60)
def test_every_running_answer_ends_with_its_own_text_however_small_the_cache(
    sizes: list[tuple[int, int]], blocks: int
) -> None:
    """All have begun elsewhere, so none may be refused, and together they need several times the cache."""
    world = World(blocks=blocks)
    begun = [[i % VOCAB] * length for i, (length, _) in enumerate(sizes)]
    playing = [
        Answer(world, str(i), list(tokens), min(len(tokens) + more, blocks * BLOCK), stream=Stream(resumed=True))
        for i, (tokens, (_, more)) in enumerate(zip(begun, sizes, strict=True))
    ]
    play(world, playing)
    for tokens, one in zip(begun, playing, strict=True):
        assert one.tokens == [*tokens, *continuation(tokens, len(one.tokens) - len(tokens))]
    world.step()
    assert world.engine.idle


def test_under_pressure_the_older_answers_are_not_disturbed() -> None:
    """No thrashing: six answers over room for two; the first two never lose their cache."""
    world = World(blocks=10)
    playing = [Answer(world, str(i), [i, i], 20, stream=Stream(resumed=True)) for i in range(6)]
    play(world, playing)
    assert [one.misses for one in playing[:2]] == [0, 0]
    assert sum(one.misses for one in playing) <= 8
