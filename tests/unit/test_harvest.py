"""Look-aheads in the engine: branches adopted, ended, evicted; every block is that of a fresh draft, nothing leaks."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.drafter import Propose
from draft_service.look_ahead import LookAhead
from outrider.errors import Cancelled, OutriderError, Unavailable
from outrider.inference.admission import AdmissionLimits
from outrider.inference.engine import Engine, EngineOptions
from outrider.inference.job import Job, Outcome
from outrider.inference.stream import Stream
from outrider.sampling import SamplingParams
from outrider.tokens import CacheMiss
from tests.unit.scripted import VOCAB, Inbox, ScriptedRunner, claim_of, drain, submit

PROMPT = [3, 1, 4, 1, 5, 9, 2]
GREEDY = SamplingParams()
NOISY = SamplingParams(6.0, seed=11)
"""So hot that the scripted model's choices are rarely its likeliest tokens."""


def serial(path: Sequence[int], count: int, params: SamplingParams = GREEDY) -> tuple[int, ...]:
    """The block that a fresh draft proposes after a path."""
    engine = Engine(ScriptedRunner())
    _, inbox = submit(engine, "fresh", claim_of(path), Propose(params, count, VOCAB))
    drain(engine)
    return tuple(inbox.outcome.result)


@dataclass
class Draft:
    """One session of one engine, as the service uses it."""

    engine: Engine
    name: str = "a"
    params: SamplingParams = GREEDY
    stream: Stream = field(default_factory=Stream)

    def propose(self, path: Sequence[int], prefix_len: int, count: int) -> tuple[Job, Inbox]:
        program = Propose(self.params, count, VOCAB)
        return submit(self.engine, self.name, claim_of(path, prefix_len), program, stream=self.stream)

    def look_ahead(
        self, path: Sequence[int], prefix_len: int, block: Sequence[int], fanout: Sequence[int], count: int
    ) -> tuple[Job, Inbox]:
        program = LookAhead(self.params, tuple(block), tuple(fanout), count, VOCAB, limit=200)
        claim = claim_of(path, prefix_len)
        return submit(self.engine, self.name, claim, program, stream=self.stream, optional=True)

    def block(self, path: Sequence[int], prefix_len: int, count: int) -> Outcome:
        """A proposal from beginning to end."""
        _, inbox = self.propose(path, prefix_len, count)
        drain(self.engine)
        return inbox.outcome

    @property
    def cached(self) -> list[int]:
        session = self.engine.sessions.get(self.name)
        return list(session.log.tokens) if session else []

    @property
    def branches(self) -> int:
        session = self.engine.sessions.get(self.name)
        return len(session.branches) if session else 0


def blocks_of(path: Sequence[int], outcome: Outcome) -> dict[tuple[int, int], tuple[int, ...]]:
    """Continuations by (accepted, next token)."""
    return {(sprout.length - len(path), sprout.token): tokens for sprout, tokens in outcome.result}


def drafts(num_blocks: int = 64, params: SamplingParams = GREEDY) -> tuple[ScriptedRunner, Draft]:
    runner = ScriptedRunner(num_blocks, row_multiple=1)
    return runner, Draft(Engine(runner), params=params)


@pytest.mark.parametrize("params", [GREEDY, NOISY])
def test_every_continuation_is_the_block_that_would_follow(params: SamplingParams) -> None:
    _, draft = drafts(params=params)
    first = draft.block(PROMPT, 0, 3)
    _, inbox = draft.look_ahead(PROMPT, 6, first.result, [2, 2, 2, 3], 4)
    drain(draft.engine)
    ahead = blocks_of(PROMPT, inbox.outcome)
    assert [sum(n == accepted for n, _ in ahead) for accepted in range(4)] == [2, 2, 2, 3]
    for (accepted, token), tokens in ahead.items():
        assert token != (*first.result, None)[accepted]
        assert tokens == serial([*PROMPT, *first.result[:accepted], token], 4, params)
    assert inbox.outcome.cached_len == len(PROMPT) + 3
    assert (draft.cached, draft.branches) == ([*PROMPT, *first.result], 9)


def test_all_branches_share_their_passes_and_the_round_counts_them_once() -> None:
    """One pass over the block, then one per token: eight branches, as many rows."""
    runner, draft = drafts()
    draft.block(PROMPT, 0, 2)
    before = len(runner.passes)
    _, inbox = draft.look_ahead(PROMPT, 6, [7, 8], [2, 3, 3], 3)
    drain(draft.engine)
    assert [plan.rows for plan in runner.passes[before:]] == [3, 8, 8, 8]
    timings = inbox.outcome.timings
    assert (timings.passes, timings.batch_rows) == (4, 8)
    assert timings.forward_us > 0


def test_a_hit_is_adopted_and_not_computed_again() -> None:
    runner, draft = drafts()
    draft.block(PROMPT, 0, 2)
    _, inbox = draft.look_ahead(PROMPT, 6, [7, 8], [1, 1, 2], 4)
    drain(draft.engine)
    before = len(runner.passes)
    for (accepted, token), tokens in blocks_of(PROMPT, inbox.outcome).items():
        path = [*PROMPT, *[7, 8][:accepted], token]
        outcome = draft.block(path, len(PROMPT), 4)
        assert (outcome.result, outcome.cached_len, outcome.timings.passes) == (tokens, len(path) + 3, 0)
        break
    assert len(runner.passes) == before
    assert (draft.cached, draft.branches) == ([*path, *tokens[:-1]], 0)


def test_a_longer_block_goes_on_where_the_branch_stopped() -> None:
    runner, draft = drafts()
    _, inbox = draft.look_ahead(PROMPT, 0, [7, 8], [0, 1, 0], 3)
    drain(draft.engine)
    ((_, token),) = blocks_of(PROMPT, inbox.outcome)
    before = len(runner.passes)
    path = [*PROMPT, 7, token]
    assert draft.block(path, len(PROMPT), 5).result == serial(path, 5)
    assert [plan.rows for plan in runner.passes[before:]] == [1, 1]


def test_a_miss_goes_on_from_the_main_line() -> None:
    """The verdict's token has no branch: what it shares with the block stays, the rest is computed."""
    runner, draft = drafts()
    _, inbox = draft.look_ahead(PROMPT, 0, [7, 8, 6], [1, 1, 1, 1], 3)
    drain(draft.engine)
    taken = {token for _, token in blocks_of(PROMPT, inbox.outcome)} | {7, 8, 6}
    path = [*PROMPT, 7, 8, next(token for token in range(VOCAB) if token not in taken)]
    before = len(runner.passes)
    assert draft.block(path, 2, 2).result == serial(path, 2)
    assert [plan.rows for plan in runner.passes[before:]] == [1, 1]
    assert draft.branches == 0


def test_the_next_look_ahead_adopts_a_branch_and_forks_from_it() -> None:
    """A hit: the continuation is the next block in flight; of its path only the wanted rows are run."""
    runner, draft = drafts()
    _, inbox = draft.look_ahead(PROMPT, 0, [7, 8], [1, 1, 1], 3)
    drain(draft.engine)
    ((accepted, token), tokens), *_ = blocks_of(PROMPT, inbox.outcome).items()
    path = [*PROMPT, *[7, 8][:accepted], token]
    before = len(runner.passes)
    _, inbox = draft.look_ahead(path, len(PROMPT), tokens, [0, 1, 1, 1], 3)
    drain(draft.engine)
    assert runner.passes[before].rows == 4
    for (number, following), found in blocks_of(path, inbox.outcome).items():
        assert found == serial([*path, *tokens[:number], following], 3)


def test_a_look_ahead_that_is_ended_stops_between_passes_and_leaves_its_work() -> None:
    """The next round waits for nothing but the pass that runs, and goes on from what the branch has."""
    runner, draft = drafts()
    job, inbox = draft.look_ahead(PROMPT, 0, [7, 8], [0, 0, 2], 20)
    for _ in range(4):  # the block, then three tokens
        draft.engine.step()
    job.cancelled = True
    first = next(iter(draft.engine.sessions)).branches[0].log.tokens
    path = first[: len(PROMPT) + 3]
    before = len(runner.passes)
    assert draft.block(path, len(PROMPT), 5).result == serial(path, 5)
    assert [plan.rows for plan in runner.passes[before:]] == [1, 1]
    assert isinstance(inbox.delivered[0], Outcome | Cancelled)


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_look_ahead_may_be_ended_at_any_step(steps: int) -> None:
    runner, draft = drafts()
    draft.block(PROMPT, 0, 2)
    job, _ = draft.look_ahead(PROMPT, 6, [7, 8], [1, 2, 2], 9)
    for _ in range(steps):
        draft.engine.step()
    before = len(runner.passes)
    job.cancelled = True
    path = [*PROMPT, 7, 30]
    assert draft.block(path, 7, 3).result == serial(path, 3)
    assert len(runner.passes) == before + 3, "no pass for the branches any more"
    assert (draft.branches, draft.engine.idle) == (0, True)


def test_the_end_of_a_stream_gives_up_what_was_prepared() -> None:
    _, draft = drafts()
    job, _ = draft.look_ahead(PROMPT, 0, [7, 8], [1, 1, 1], 9)
    for _ in range(3):
        draft.engine.step()
    job.cancelled = True
    draft.stream.open = False
    draft.engine.end(draft.stream)
    drain(draft.engine)
    assert (draft.branches, draft.engine.pool.held) == (0, 3)
    assert draft.engine.release("a")
    assert draft.engine.pool.held == 0


@pytest.mark.parametrize("steps", [0, 1, 3, 50])
def test_releasing_a_session_that_looks_ahead_frees_all_of_it(steps: int) -> None:
    _, draft = drafts()
    draft.look_ahead(PROMPT, 0, [7, 8], [1, 1, 1], 9)
    for _ in range(steps):
        draft.engine.step()
    draft.engine.release("a")
    drain(draft.engine)
    draft.engine.release("a")
    assert (draft.engine.pool.held, len(draft.engine.sessions)) == (0, 0)


def test_real_rounds_take_the_blocks_of_branches_first_and_nobody_misses() -> None:
    """6 blocks hold 24 tokens: the look-ahead may use them, but a new session needs them more."""
    _, draft = drafts(num_blocks=6)
    _, inbox = draft.look_ahead(PROMPT, 0, [7], [1, 3], 4)
    for _ in range(2):
        draft.engine.step()
    assert draft.branches == 3, "the fourth found no room"
    new = Draft(draft.engine, "b")
    _, other = new.propose([9, 9, 9, 9, 9, 9], 0, 3)
    drain(draft.engine)
    assert other.outcome.result == serial([9, 9, 9, 9, 9, 9], 3)
    assert draft.engine.sessions.evictions == 0
    assert draft.cached == [*PROMPT, 7]
    assert len(inbox.outcome.result) == draft.branches == 1


def test_a_look_ahead_without_room_is_answered_with_nothing_and_disturbs_nobody() -> None:
    _, draft = drafts(num_blocks=4)
    draft.block(PROMPT, 0, 1)
    other = Draft(draft.engine, "b", stream=Stream(resumed=True))
    other.block([9] * 7, 0, 1)
    _, inbox = draft.look_ahead(PROMPT, 6, [7, 8], [1, 1, 1], 4)
    drain(draft.engine)
    assert (inbox.outcome.result, inbox.outcome.cached_len) == ((), 6)
    assert (draft.cached, other.cached) == (PROMPT[:6], [9] * 7)
    assert draft.engine.sessions.evictions == 0


def test_a_look_ahead_may_have_the_blocks_of_sessions_whose_stream_has_ended() -> None:
    _, draft = drafts(num_blocks=7)
    gone = Draft(draft.engine, "b")
    gone.block([9] * 7, 0, 1)
    gone.stream.open = False
    draft.block(PROMPT, 0, 1)
    _, inbox = draft.look_ahead(PROMPT, 6, [7, 8], [0, 0, 2], 4)
    drain(draft.engine)
    assert len(inbox.outcome.result) == 2
    assert gone.cached == []


def test_a_real_round_never_waits_behind_a_look_ahead() -> None:
    """More branches than a pass has rows: rounds that are asked for go first."""
    runner, draft = drafts(num_blocks=200)
    draft.look_ahead(PROMPT, 0, [7], [16, 16], 8)
    draft.engine.step()
    _, inbox = Draft(draft.engine, "b").propose([5, 6], 0, 1)
    draft.engine.step()
    assert inbox.outcome.result == serial([5, 6], 1)
    assert runner.passes[-1].tokens.tolist()[:2] == [5, 6]
    drain(draft.engine)


def test_a_claim_that_does_not_hold_is_a_miss_here_too() -> None:
    _, draft = drafts()
    _, inbox = draft.look_ahead(PROMPT, 4, [7], [1, 1], 2)
    drain(draft.engine)
    assert inbox.outcome.result == CacheMiss(0)


def test_a_failed_pass_fails_the_look_ahead_and_keeps_the_main_line() -> None:
    runner, draft = drafts()
    _, inbox = draft.look_ahead(PROMPT, 0, [7], [1, 1], 4)
    draft.engine.step()
    draft.engine.step()
    runner.fail_next = True
    drain(draft.engine)
    assert type(inbox.error) is OutriderError
    assert (draft.cached, draft.branches) == ([*PROMPT, 7], 0)


def test_abort_ends_a_look_ahead_once() -> None:
    _, draft = drafts()
    _, inbox = draft.look_ahead(PROMPT, 0, [7], [1, 1], 9)
    for _ in range(3):
        draft.engine.step()
    draft.engine.abort(Unavailable("stopping"))
    assert isinstance(inbox.error, Unavailable)
    assert draft.engine.idle


def test_bad_logits_in_a_branch_end_it_alone() -> None:
    runner, draft = drafts()
    draft.block(PROMPT, 0, 1)
    _, probe = draft.look_ahead(PROMPT, 6, [7], [1, 1], 3)
    drain(draft.engine)
    (n, token), _ = next(iter(blocks_of(PROMPT, probe.outcome).items()))
    path = [*PROMPT, *[7][:n], token]
    runner.bad.add((*path, *serial(path, 1)))
    _, inbox = draft.look_ahead(PROMPT, 6, [7], [1, 1], 3)
    drain(draft.engine)
    found = blocks_of(PROMPT, inbox.outcome)
    assert (len(found), found[n, token]) == (2, serial(path, 1))


def test_bad_logits_over_the_block_end_the_main_line_there_even_when_the_round_is_ended_at_once() -> None:
    runner, draft = drafts()
    runner.bad.add((*PROMPT, 7, 8))
    job, inbox = draft.look_ahead(PROMPT, 0, [7, 8, 6], [1, 1, 1, 1], 3)
    draft.engine.step()
    assert draft.cached == [*PROMPT, 7]
    drain(draft.engine)
    assert {accepted for accepted, _ in blocks_of(PROMPT, inbox.outcome)} == {0, 1}
    job, _ = draft.look_ahead(PROMPT, 6, [7, 8, 6], [1, 1, 1, 1], 3)
    draft.engine.step()
    job.cancelled = True
    drain(draft.engine)
    assert draft.cached == [*PROMPT, 7]


def test_another_stream_of_the_session_takes_no_choices_made_with_other_noise() -> None:
    _, draft = drafts(params=NOISY)
    _, inbox = draft.look_ahead(PROMPT, 0, [7], [1, 1], 4)
    drain(draft.engine)
    (accepted, token), _ = next(iter(blocks_of(PROMPT, inbox.outcome).items()))
    path = [*PROMPT, *[7][:accepted], token]
    other = Draft(draft.engine, "a", SamplingParams(6.0, seed=12))
    outcome = other.block(path, len(PROMPT), 4)
    assert outcome.result == serial(path, 4, other.params)
    assert outcome.timings.passes == 4


def test_guesses_are_never_offered_to_others() -> None:
    """Only claimed tokens are found by other sessions: not the block in flight, not what follows an outcome."""
    _, draft = drafts()
    draft.look_ahead(PROMPT[:5], 0, [7, 8, 6, 5], [1, 1, 1, 1, 1], 9)
    drain(draft.engine)
    assert len(draft.engine.pool.prefixes) == 1


def test_a_round_is_one_round_however_many_branches_it_has() -> None:
    _, draft = drafts()
    draft.look_ahead(PROMPT, 0, [7], [4, 4], 9)
    for _ in range(3):
        draft.engine.step()
    load = draft.engine.load()
    assert (load.sessions, load.pending_rounds) == (1, 1)


@dataclass
class Caller:
    """The orchestrator of one session: it may propose, look ahead, be answered or not, and go on with any verdict.

    ``tokens`` are committed; ``view`` is what it believes to be cached, and may be wrong on purpose.
    """

    draft: Draft
    tokens: list[int]
    view: int = 0
    flight: tuple[int, ...] = ()
    ahead: list[tuple[list[int], tuple[int, ...], Job, Inbox]] = field(default_factory=list)

    def propose(self, count: int) -> None:
        """A block; misses are followed, and it must be that of a fresh draft."""
        self.end()
        for _ in range(4):
            _, inbox = self.draft.propose(self.tokens, min(self.view, len(self.tokens) - 1), count)
            drain(self.draft.engine)
            outcome = inbox.outcome
            self.view = outcome.cached_len
            if not isinstance(outcome.result, CacheMiss):
                assert outcome.result == serial(self.tokens, count, self.draft.params)
                assert outcome.cached_len == len(self.draft.cached)
                self.flight = outcome.result
                return
        raise AssertionError("misses every claim")

    def look_ahead(self, fanout: Sequence[int], count: int) -> None:
        self.end()
        wanted = [fanout[n % len(fanout)] for n in range(len(self.flight) + 1)]
        prefix = min(self.view, len(self.tokens) - 1)
        job, inbox = self.draft.look_ahead(self.tokens, prefix, self.flight, wanted, count)
        self.ahead.append((list(self.tokens), self.flight, job, inbox))

    def end(self) -> None:
        """The next message ends what is under way."""
        for _, _, job, inbox in self.ahead:
            job.cancelled = not inbox.delivered

    def verdict(self, accepted: int, token: int) -> None:
        """Commit; what is in flight now is the continuation, if there is one."""
        accepted = min(accepted, len(self.flight))
        after = [*self.tokens, *self.flight[:accepted], token]
        self.flight = self.continuations().get((accepted, token), ())
        self.tokens = after

    def hit(self, which: int) -> None:
        """A verdict for which there is a branch, finished or not."""
        session = self.draft.engine.sessions.get(self.draft.name)
        lines = [b.log.tokens[: b.ahead.start] for b in session.branches if b.ahead] if session else []
        able = [line for line in lines if line[: len(self.tokens)] == self.tokens and len(line) > len(self.tokens)]
        if able:
            line = able[which % len(able)]
            self.verdict(len(line) - len(self.tokens) - 1, line[-1])

    def continuations(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Of the last look-ahead, when it was about what is in flight now; each must be a fresh draft's block."""
        if not self.ahead:
            return {}
        path, flight, _, inbox = self.ahead[-1]
        delivered = inbox.delivered[0] if inbox.delivered else None
        if not isinstance(delivered, Outcome) or isinstance(delivered.result, CacheMiss) or path != self.tokens:
            return {}
        found = blocks_of(path, delivered)
        for (accepted, token), tokens in found.items():
            following = [*path, *flight[:accepted], token]
            assert tokens == serial(following, len(tokens), self.draft.params)
        return found


WHO = st.integers(0, 1)
FANOUT = st.lists(st.integers(0, 2), min_size=1, max_size=3)
ACTIONS = st.one_of(
    st.tuples(st.just("propose"), WHO, st.integers(1, 5)),
    st.tuples(st.just("look"), WHO, FANOUT),
    st.tuples(st.just("step"), WHO, st.integers(1, 4)),
    st.tuples(st.just("hit"), WHO, st.integers(0, 5)),
    st.tuples(st.just("verdict"), WHO, st.integers(0, 5)),
    st.tuples(st.just("believe"), WHO, st.integers(0, 30)),
    st.tuples(st.just("evict"), WHO, st.integers(0, 3)),
    st.tuples(st.just("stranger"), WHO, st.integers(1, 20)),
)


def act(callers: Sequence[Caller], name: str, who: int, value: int | list[int]) -> None:
    """One thing that may happen to a draft service."""
    caller, engine = callers[who], callers[who].draft.engine
    if isinstance(value, list):
        caller.look_ahead(value, 3)
    elif name == "propose":
        caller.propose(value)
    elif name == "step":
        for _ in range(value):
            engine.step()
            engine.sessions.check_integrity()
    elif name == "hit":
        caller.hit(value)
    elif name == "verdict":
        caller.verdict(value, value)
    elif name == "believe":
        caller.view = value
    elif name == "evict":
        branches = engine.sessions.branches()
        if branches:
            engine.sessions.discard(branches[value % len(branches)])
        else:
            engine.release(callers[1 - who].draft.name)
    else:
        submit(engine, f"stranger {value}", claim_of([value] * value), Propose(GREEDY, 2, VOCAB), stream=Stream())


ROUNDS = st.tuples(WHO, FANOUT, st.integers(0, 6), st.sampled_from(["hit", "hit", "verdict"]), st.integers(0, 5)).map(
    lambda drawn: [
        ("look", drawn[0], drawn[1]),
        *[("step", 0, 1)] * drawn[2],
        (drawn[3], drawn[0], drawn[4]),
    ]
)
"""What mostly happens: a look-ahead, some passes, and a verdict, which often hits."""
SCRIPTS = st.lists(st.one_of(ROUNDS, ROUNDS, ACTIONS.map(lambda action: [action])), max_size=12).map(
    lambda parts: [action for part in parts for action in part]
)


@given(
    actions=SCRIPTS,
    blocks=st.sampled_from([11, 14, 100]),
    params=st.sampled_from([GREEDY, NOISY]),
)
@settings(max_examples=300)
def test_whatever_happens_every_block_is_that_of_a_fresh_draft_and_nothing_leaks(
    actions: list[tuple[str, int, int | list[int]]], blocks: int, params: SamplingParams
) -> None:
    """Look-aheads, hits, misses, wrong beliefs, cancellations, evictions, releases and a cache that is too small.

    Two sessions that begin alike, so they share blocks; strangers come and press for room, and go.
    """
    clock = itertools.count(0.0, 0.1).__next__  # time passes, so that nobody waits for room for ever
    options = EngineOptions(admission=AdmissionLimits(queue_s=5.0))
    engine = Engine(ScriptedRunner(blocks, row_multiple=1), options, clock=clock)
    callers = [
        Caller(Draft(engine, name, params, Stream(resumed=True)), [*PROMPT[: 6 + i], i]) for i, name in enumerate("ab")
    ]
    for action in actions:
        if all(len(caller.tokens) < 30 for caller in callers):
            act(callers, *action)
            engine.sessions.check_integrity()
    for caller in callers:
        caller.end()
    drain(engine)
    for caller in callers:
        caller.continuations()
    callers[0].propose(2)  # the other one just goes
    for caller in callers:
        caller.draft.stream.open = False
        engine.end(caller.draft.stream)
    assert engine.sessions.branches() == []
    for session in list(engine.sessions):
        engine.release(session.session_id)
    engine.sessions.check_integrity()
    assert (engine.pool.held, engine.pool.free, engine.idle) == (0, blocks, True)
