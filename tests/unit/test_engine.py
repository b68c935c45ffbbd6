"""The engine over a scripted runner: claims, sharing, pressure, cancellation and failures, and nothing leaks."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import Cancelled, InvalidArgument, OutriderError, Unavailable
from outrider.inference.engine import Engine, EngineOptions
from outrider.inference.packed import PackedPass
from outrider.inference.passes import PassRecord
from outrider.inference.program import Done, More
from outrider.inference.schedule import RowBudget
from outrider.inference.stream import Stream
from outrider.tokens import CacheMiss, Claim
from tests.unit.scripted import (
    VOCAB,
    Inbox,
    ScriptedRunner,
    Steps,
    claim_of,
    continuation,
    drain,
    next_token,
    submit,
)

PROMPT = (3, 1, 4, 1, 5, 9, 2)


def run(engine: Engine, session_id: str, claim: Claim, program: Steps | None = None) -> Inbox:
    """One round from beginning to end."""
    _, inbox = submit(engine, session_id, claim, program)
    drain(engine)
    return inbox


def cached(engine: Engine, session_id: str) -> list[int]:
    session = engine.sessions.get(session_id)
    assert session is not None
    return session.log.tokens


def test_a_new_session_runs_its_tokens_and_keeps_them() -> None:
    engine = Engine(ScriptedRunner())
    outcome = run(engine, "a", claim_of(PROMPT)).outcome
    assert (outcome.result, outcome.cached_len) == ([next_token(PROMPT)], len(PROMPT))
    assert cached(engine, "a") == list(PROMPT)


def test_a_second_round_runs_only_what_is_new() -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner)
    run(engine, "a", claim_of(PROMPT))
    longer = [*PROMPT, 6, 5]
    assert run(engine, "a", claim_of(longer, len(PROMPT))).outcome.result == [next_token(longer)]
    assert runner.passes[-1].tokens.tolist() == [6, 5]


def test_a_claim_of_an_unknown_session_is_a_miss_and_creates_nothing() -> None:
    engine = Engine(ScriptedRunner())
    outcome = run(engine, "a", claim_of(PROMPT, 4)).outcome
    assert (outcome.result, outcome.cached_len) == (CacheMiss(0), 0)
    assert len(engine.sessions) == 0


def test_a_claim_longer_than_the_cache_is_a_miss_with_its_length_and_changes_nothing() -> None:
    engine = Engine(ScriptedRunner())
    run(engine, "a", claim_of(PROMPT))
    outcome = run(engine, "a", claim_of([*PROMPT, 8, 8, 8], len(PROMPT) + 2)).outcome
    assert outcome.result == CacheMiss(len(PROMPT))
    assert cached(engine, "a") == list(PROMPT)


def test_a_claim_of_other_tokens_is_a_miss_from_the_first() -> None:
    engine = Engine(ScriptedRunner())
    run(engine, "a", claim_of(PROMPT))
    assert run(engine, "a", claim_of([7, *PROMPT[1:], 1], 5)).outcome.result == CacheMiss(0)


def test_a_shorter_claim_cuts_the_cache_and_goes_on() -> None:
    """Rollback is a length: what follows is computed as if the cut tokens had never been there."""
    engine = Engine(ScriptedRunner())
    run(engine, "a", claim_of(PROMPT))
    other = [*PROMPT[:3], 11, 12]
    assert run(engine, "a", claim_of(other, 3)).outcome.result == [next_token(other)]
    assert cached(engine, "a") == other


def test_resending_everything_to_a_known_session_starts_afresh() -> None:
    engine = Engine(ScriptedRunner())
    run(engine, "a", claim_of(PROMPT))
    assert run(engine, "a", claim_of((9, 9))).outcome.result == [next_token((9, 9))]
    assert cached(engine, "a") == [9, 9]


def test_a_tail_gives_a_row_for_the_last_token_and_each_of_its_own() -> None:
    engine = Engine(ScriptedRunner())
    tail = [7, 8]
    outcome = run(engine, "a", claim_of(PROMPT), Steps(tail, keep=len(PROMPT) + 1)).outcome
    assert outcome.result == [next_token(PROMPT), next_token([*PROMPT, 7]), next_token([*PROMPT, 7, 8])]
    assert cached(engine, "a") == [*PROMPT, 7]


def test_a_growing_round_decodes_one_token_after_another() -> None:
    engine = Engine(ScriptedRunner())
    outcome = run(engine, "a", claim_of(PROMPT), Steps(growth=5)).outcome
    assert outcome.result == continuation(PROMPT, 6)
    assert outcome.cached_len == len(PROMPT) + 5
    assert outcome.timings.passes == 6


def test_a_long_prompt_is_cut_into_chunks_with_the_same_result() -> None:
    runner = ScriptedRunner()
    engine = Engine(runner, EngineOptions(budget=RowBudget(rows=16, short=4, prompt_floor=4)))
    prompt = [token % VOCAB for token in range(100)]
    assert run(engine, "a", claim_of(prompt)).outcome.result == [next_token(prompt)]
    assert len(runner.passes) == 7
    assert all(plan.rows <= 16 for plan in runner.passes)


def test_rounds_of_different_sessions_share_a_pass() -> None:
    runner = ScriptedRunner()
    engine = Engine(runner)
    prompts = {name: [i, *PROMPT] for i, name in enumerate("abcdef")}
    inboxes = {name: submit(engine, name, claim_of(prompt))[1] for name, prompt in prompts.items()}
    engine.step()
    assert len(runner.passes) == 1
    assert {n: i.outcome.result for n, i in inboxes.items()} == {n: [next_token(p)] for n, p in prompts.items()}


def test_blocks_of_several_sessions_in_one_pass_each_get_their_own_rows() -> None:
    runner = ScriptedRunner()
    engine = Engine(runner)
    inboxes = {}
    for name, tail in {"a": [7, 8, 9], "b": [], "c": [4]}.items():
        inboxes[name] = submit(engine, name, claim_of(PROMPT), Steps(tail))[1]
    engine.step()
    assert len(runner.passes) == 1
    whole = [next_token(PROMPT), *(next_token([*PROMPT, *[7, 8, 9][: n + 1]]) for n in range(3))]
    assert inboxes["a"].outcome.result == whole
    assert inboxes["b"].outcome.result == whole[:1]
    assert inboxes["c"].outcome.result == [whole[0], next_token([*PROMPT, 4])]


def test_two_rounds_of_one_session_wait_for_each_other() -> None:
    """The second sees the cache that the first one leaves."""
    engine = Engine(ScriptedRunner())
    _, first = submit(engine, "a", claim_of(PROMPT), Steps(growth=3))
    longer = [*PROMPT, *continuation(PROMPT, 3)]
    _, second = submit(engine, "a", claim_of(longer, len(longer) - 1))
    engine.step()
    assert len(engine.sessions) == 1
    assert (first.delivered, second.delivered) == ([], [])
    drain(engine)
    assert second.outcome.result == [next_token(longer)]


def test_a_waiting_round_of_a_busy_session_does_not_hold_up_others() -> None:
    engine = Engine(ScriptedRunner())
    submit(engine, "a", claim_of(PROMPT), Steps(growth=5))
    _, blocked = submit(engine, "a", claim_of(PROMPT))
    _, other = submit(engine, "b", claim_of(PROMPT))
    engine.step()
    assert other.outcome.result == [next_token(PROMPT)]
    assert blocked.delivered == []
    drain(engine)


def test_cancelling_between_passes_frees_the_session() -> None:
    engine = Engine(ScriptedRunner())
    job, inbox = submit(engine, "a", claim_of(PROMPT), Steps(growth=50))
    engine.step()
    assert engine.pool.held > 0
    job.cancelled = True
    engine.step()
    assert isinstance(inbox.error, Cancelled)
    assert (len(engine.sessions), engine.pool.held, engine.idle) == (0, 0, True)


def test_cancelling_a_waiting_round_leaves_no_trace() -> None:
    runner = ScriptedRunner()
    engine = Engine(runner)
    job, inbox = submit(engine, "a", claim_of(PROMPT))
    job.cancelled = True
    drain(engine)
    assert (len(engine.sessions), inbox.delivered, runner.passes) == (0, [], [])


def test_a_cancelled_round_lets_the_next_one_of_its_session_in() -> None:
    engine = Engine(ScriptedRunner())
    job, _ = submit(engine, "a", claim_of(PROMPT), Steps(growth=50))
    _, second = submit(engine, "a", claim_of(PROMPT))
    engine.step()
    job.cancelled = True
    drain(engine)
    assert second.outcome.result == [next_token(PROMPT)]


def test_under_pressure_idle_sessions_go_and_running_ones_finish() -> None:
    """10 sessions of 4 blocks over a pool of 12 blocks: each finishes, and evictions made the room."""
    engine = Engine(ScriptedRunner(num_blocks=12))
    prompts = {str(i): [i % VOCAB, *PROMPT] for i in range(10)}
    inboxes = {n: submit(engine, n, claim_of(p), Steps(growth=7))[1] for n, p in prompts.items()}
    drain(engine)
    assert {n: i.outcome.result for n, i in inboxes.items()} == {n: continuation(p, 8) for n, p in prompts.items()}
    assert engine.sessions.evictions >= 7
    assert engine.pool.free + engine.pool.held == 12


def test_an_evicted_session_misses_and_is_rebuilt_by_resending() -> None:
    engine = Engine(ScriptedRunner(num_blocks=4))
    run(engine, "a", claim_of(PROMPT))
    run(engine, "b", claim_of([1] * 13))
    longer = [*PROMPT, 5]
    miss = run(engine, "a", claim_of(longer, len(PROMPT))).outcome.result
    assert miss == CacheMiss(0)
    assert run(engine, "a", claim_of(longer, 0)).outcome.result == [next_token(longer)]


def test_a_round_whose_session_is_the_only_idle_one_does_not_evict_itself() -> None:
    engine = Engine(ScriptedRunner(num_blocks=4))
    run(engine, "a", claim_of(PROMPT))
    longer = [*PROMPT, *range(9)]
    assert run(engine, "a", claim_of(longer, len(PROMPT))).outcome.result == [next_token(longer)]


def test_a_round_that_can_never_fit_is_refused_at_once() -> None:
    engine = Engine(ScriptedRunner(num_blocks=4))
    assert isinstance(run(engine, "a", claim_of([1] * 17)).error, InvalidArgument)
    assert len(engine.sessions) == 0


def test_a_round_beyond_the_context_is_refused_by_name() -> None:
    engine = Engine(ScriptedRunner(max_positions=10))
    error = run(engine, "a", claim_of([1] * 8), Steps((1, 2), growth=1)).error
    assert isinstance(error, InvalidArgument)
    assert error.field == "tokens"


def test_a_round_may_fill_the_context_to_its_last_position() -> None:
    engine = Engine(ScriptedRunner(max_positions=10))
    assert run(engine, "a", claim_of([1] * 8), Steps((1,), growth=1)).outcome.cached_len == 10


def test_a_failed_pass_fails_its_rounds_only_and_the_engine_goes_on() -> None:
    runner = ScriptedRunner()
    engine = Engine(runner)
    run(engine, "kept", claim_of(PROMPT))
    first, second = (submit(engine, name, claim_of(PROMPT))[1] for name in "ab")
    runner.fail_next = True
    drain(engine)
    assert all(type(i.error) is OutriderError and "on fire" in str(i.error) for i in (first, second))
    assert cached(engine, "kept") == list(PROMPT)
    assert engine.sessions.get("a") is None
    assert run(engine, "a", claim_of(PROMPT)).outcome.result == [next_token(PROMPT)]


def test_bad_logits_fail_their_own_round_only() -> None:
    runner = ScriptedRunner()
    engine = Engine(runner)
    runner.bad.add(PROMPT)
    _, bad = submit(engine, "a", claim_of(PROMPT))
    _, good = submit(engine, "b", claim_of([*PROMPT, 1]))
    drain(engine)
    assert isinstance(bad.error, ValueError)
    assert good.outcome.result == [next_token([*PROMPT, 1])]
    assert engine.sessions.get("a") is None


def test_releasing_an_idle_session_frees_it_now() -> None:
    engine = Engine(ScriptedRunner())
    run(engine, "a", claim_of(PROMPT))
    assert engine.release("a")
    assert not engine.release("a")
    assert engine.pool.held == 0


def test_releasing_a_busy_session_ends_its_round_and_frees_it() -> None:
    engine = Engine(ScriptedRunner())
    _, inbox = submit(engine, "a", claim_of(PROMPT), Steps(growth=50))
    engine.step()
    assert engine.release("a")
    drain(engine)
    assert isinstance(inbox.error, Cancelled)
    assert (len(engine.sessions), engine.pool.held) == (0, 0)


def test_idle_sessions_expire_by_the_engines_clock() -> None:
    now = [0.0]
    engine = Engine(ScriptedRunner(), EngineOptions(session_ttl_s=10.0), clock=lambda: now[0])
    run(engine, "a", claim_of(PROMPT))
    now[0] = 9.9
    engine.expire()
    assert len(engine.sessions) == 1
    now[0] = 10.0
    engine.expire()
    assert (len(engine.sessions), engine.pool.held) == (0, 0)


def test_the_time_to_live_counts_from_the_end_of_the_last_round() -> None:
    now = [0.0]
    engine = Engine(ScriptedRunner(), EngineOptions(session_ttl_s=10.0), clock=lambda: now[0])
    submit(engine, "a", claim_of(PROMPT), Steps(growth=2))
    engine.step()
    now[0] = 100.0
    engine.expire()
    drain(engine)
    engine.expire()
    assert len(engine.sessions) == 1


def test_abort_ends_every_round_once() -> None:
    engine = Engine(ScriptedRunner())
    inboxes = [submit(engine, name, claim_of(PROMPT), Steps(growth=9))[1] for name in "ab"]
    engine.step()
    inboxes.append(submit(engine, "c", claim_of(PROMPT))[1])
    engine.abort(Unavailable("stopping"))
    assert all(isinstance(inbox.error, Unavailable) for inbox in inboxes)
    assert (engine.idle, engine.pool.held) == (True, 0)


def test_timings_count_passes_and_rows_of_the_last_pass() -> None:
    engine = Engine(ScriptedRunner())
    _, first = submit(engine, "a", claim_of(PROMPT), Steps(growth=1))
    submit(engine, "b", claim_of((1, 2)), Steps(growth=1))
    drain(engine)
    timings = first.outcome.timings
    assert (timings.passes, timings.batch_rows) == (2, 2)
    assert timings.queue_us >= 0
    assert timings.forward_us > 0


def test_a_miss_takes_part_in_no_pass() -> None:
    engine = Engine(ScriptedRunner())
    assert run(engine, "a", claim_of(PROMPT, 3)).outcome.timings.passes == 0


def test_every_pass_is_observed_with_its_rows_without_padding() -> None:
    records: list[PassRecord] = []
    engine = Engine(ScriptedRunner(row_multiple=8), on_pass=records.append)
    job, _ = submit(engine, "a", claim_of(PROMPT))
    job.trace = "trace"
    submit(engine, "b", claim_of(PROMPT))
    drain(engine)
    assert [(record.rows, record.traces) for record in records] == [(14, ("trace",))]
    assert records[0].end_ns >= records[0].start_ns


def test_load_counts_sessions_rounds_and_whole_blocks() -> None:
    engine = Engine(ScriptedRunner())
    run(engine, "a", claim_of(PROMPT))
    submit(engine, "b", claim_of(PROMPT))
    load = engine.load()
    assert (load.sessions, load.pending_rounds, load.kv_used_tokens, load.pass_ms) == (1, 1, 8, 0)


def test_a_pass_that_does_not_end_is_seen_from_outside() -> None:
    """Another thread asks while the engine's own is in the pass."""
    now, seen = [0.0], []

    class Slow(ScriptedRunner):
        def forward(self, plan: PackedPass) -> torch.Tensor:
            now[0] += 25.0
            seen.append(engine.load().pass_ms)
            return super().forward(plan)

    engine = Engine(Slow(), clock=lambda: now[0])
    run(engine, "a", claim_of(PROMPT))
    assert seen == [25_000]
    assert engine.load().pass_ms == 0


class Broken:
    """A program with a bug."""

    tail: Sequence[int] = ()
    growth = 0

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done:
        raise ZeroDivisionError


def test_a_bug_in_a_program_fails_its_round_only() -> None:
    engine = Engine(ScriptedRunner())
    _, broken = submit(engine, "a", claim_of(PROMPT), Broken())
    _, good = submit(engine, "b", claim_of(PROMPT))
    drain(engine)
    assert isinstance(broken.error, ZeroDivisionError)
    assert good.outcome.result == [next_token(PROMPT)]


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[str, list[int], int]]:
    """Rounds of 4 sessions: (session, all its tokens, tokens to grow by)."""
    token = st.integers(0, VOCAB - 1)
    tokens = st.lists(token, min_size=1, max_size=20) | st.lists(st.just(1), min_size=1, max_size=20)
    one = st.tuples(st.sampled_from("abcd"), tokens, st.integers(0, 4))
    return draw(st.lists(one, min_size=1, max_size=12))


@pytest.mark.parametrize("blocks", [7, 64])
@given(workload=workloads(), steps_between=st.integers(0, 3))
@settings(max_examples=60)
def test_results_do_not_depend_on_neighbours_order_sharing_or_pressure(
    blocks: int, workload: list[tuple[str, list[int], int]], steps_between: int
) -> None:
    """Every round gives what the scripted model alone gives, and the blocks add up after every step."""
    engine = Engine(
        ScriptedRunner(num_blocks=blocks), EngineOptions(budget=RowBudget(rows=24, short=6, prompt_floor=6))
    )
    inboxes = []
    for name, tokens, growth in workload:
        inboxes.append(submit(engine, name, claim_of(tokens), Steps(growth=growth))[1])
        for _ in range(steps_between):
            engine.step()
            engine.sessions.check_integrity()
    drain(engine)
    for inbox, (_, tokens, growth) in zip(inboxes, workload, strict=True):
        assert inbox.outcome.result == continuation(tokens, growth + 1)


LONG = [token % VOCAB for token in range(4 * ScriptedRunner.block_size + 1)]


def test_a_second_session_runs_only_what_it_does_not_share() -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner)
    run(engine, "a", claim_of(LONG))
    other = [*LONG[:-1], 30]
    outcome = run(engine, "b", claim_of(other)).outcome
    assert outcome.result == [next_token(other)]
    assert runner.passes[-1].tokens.tolist() == [30]
    assert outcome.timings.shared_tokens == 16
    assert (engine.load().prefix_cache_queries, engine.load().prefix_cache_hits) == (34, 16)


def test_sessions_of_different_tenants_share_nothing() -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner)
    for tenant in ("red", "blue", ""):
        _, inbox = submit(engine, f"{tenant}/a", claim_of(LONG), stream=Stream(tenant))
        drain(engine)
        assert inbox.outcome.timings.shared_tokens == 0
    assert [plan.rows for plan in runner.passes] == [len(LONG)] * 3


def test_a_prefix_is_shared_while_its_session_still_runs_and_after_it_has_gone() -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner, EngineOptions(budget=RowBudget(rows=8, short=4, prompt_floor=4)))
    submit(engine, "a", claim_of(LONG), Steps(growth=9))
    for _ in range(2):
        engine.step()
    _, early = submit(engine, "b", claim_of(LONG))
    drain(engine)
    assert early.outcome.timings.shared_tokens == 16, "two chunks of a's prompt had been run"
    for name in "ab":
        engine.release(name)
    assert engine.pool.held == 0
    assert run(engine, "c", claim_of(LONG)).outcome.timings.shared_tokens == 16


def test_draft_tokens_and_what_follows_them_are_never_offered() -> None:
    """They are guesses until a claim says otherwise."""
    engine = Engine(ScriptedRunner())
    run(engine, "a", claim_of(LONG[:6]), Steps(LONG[6:13], growth=3))
    assert len(engine.pool.prefixes) == 1
    run(engine, "a", claim_of(LONG[:13], 12))
    assert len(engine.pool.prefixes) == 3


def test_after_a_miss_the_resent_tokens_are_found() -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner)
    run(engine, "a", claim_of(LONG))
    engine.release("a")
    assert run(engine, "a", claim_of([*LONG, 3], len(LONG))).outcome.result == CacheMiss(0)
    outcome = run(engine, "a", claim_of([*LONG, 3])).outcome
    assert outcome.result == [next_token([*LONG, 3])]
    assert outcome.timings.shared_tokens == 16


def test_shared_blocks_do_not_count_twice_when_room_is_made() -> None:
    """Evicting two idle sessions with one prefix frees it once."""
    engine = Engine(ScriptedRunner(num_blocks=8))
    run(engine, "a", claim_of(LONG))
    run(engine, "b", claim_of([*LONG[:-1], 9]))
    assert engine.pool.held == 6
    assert run(engine, "c", claim_of([7] * 32)).outcome.result == [next_token([7] * 32)]
    assert engine.sessions.evictions == 2


PACED = EngineOptions(budget=RowBudget(rows=64, short=4, prompt_floor=8), chunk_rows=8)


def arriving(engine: Engine) -> Inbox:
    """A prompt of 120 tokens."""
    return submit(engine, "prompt", claim_of([token % 7 for token in range(120)]), stream=Stream())[1]


def test_a_prompt_beside_a_running_session_comes_in_chunks_and_every_pass_carries_the_running_one() -> None:
    """Between two rounds of the running answer too: the pass must be short when its next round comes."""
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner, PACED)
    stream, tokens = Stream(), list(PROMPT)
    tokens.append(run_in(engine, stream, tokens, 0))
    prompt = arriving(engine)
    first = len(runner.passes)
    while not prompt.delivered:
        tokens.append(run_in(engine, stream, tokens, len(tokens) - 1))
        engine.step()
    rows = [plan.rows for plan in runner.passes[first:]]
    assert set(rows[:-1]) <= {8, 9}
    assert len(rows) >= 15


def run_in(engine: Engine, stream: Stream, tokens: list[int], cached_len: int) -> int:
    """One round of an answer; it takes one pass."""
    _, inbox = submit(engine, "running", claim_of(tokens, cached_len), stream=stream)
    engine.step()
    return int(inbox.outcome.result[0])


def test_a_prompt_takes_the_whole_budget_while_nobody_else_runs() -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner, PACED)
    arriving(engine)
    engine.step()
    assert runner.passes[-1].rows == 64
    ended = Stream()
    engine = Engine(runner, PACED)
    run_in(engine, ended, list(PROMPT), 0)
    ended.open = False
    arriving(engine)
    engine.step()
    assert runner.passes[-1].rows == 64, "an answer that has ended is not held up by anything"


def test_a_cancelled_prompt_leaves_between_its_chunks() -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner, PACED)
    job, inbox = submit(engine, "prompt", claim_of([1] * 120), stream=Stream())
    engine.step()
    job.cancelled = True
    assert engine.step() is False
    assert isinstance(inbox.error, Cancelled)
    assert (len(runner.passes), engine.pool.held) == (1, 0)


def test_a_step_that_came_while_a_chunk_ran_does_not_wait_for_another_chunk() -> None:
    """And the prompt moves on in the pass after that: at least every second pass carries a chunk."""
    stream, tokens, late = Stream(), list(PROMPT), list[Inbox]()

    class Late(ScriptedRunner):
        """The running session's next round comes in the middle of each pass that it is not in."""

        def forward(self, plan: PackedPass) -> torch.Tensor:
            if plan.rows == 8:
                late.append(submit(engine, "running", claim_of(tokens, len(tokens) - 1), stream=stream)[1])
            return super().forward(plan)

    runner = Late(row_multiple=1)
    engine = Engine(runner, PACED)
    tokens.append(run_in(engine, stream, tokens, 0))
    prompt = arriving(engine)
    first = len(runner.passes)
    while not prompt.delivered:
        engine.step()
        tokens.extend(inbox.outcome.result[0] for inbox in late if inbox.delivered)
        late = [inbox for inbox in late if not inbox.delivered]
    rows = [plan.rows for plan in runner.passes[first:]]
    assert rows[:6] == [8, 2, 8, 2, 8, 2], "a chunk, then the step with one row of the prompt"
