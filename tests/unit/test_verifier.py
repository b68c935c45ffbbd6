"""The verifier emits the target's own choices and keeps exactly the accepted prefix."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.choice import Verdict, choose
from outrider.errors import NonFiniteLogits
from outrider.inference.engine import Engine
from outrider.inference.job import Outcome
from outrider.inference.program import Done
from outrider.sampling import SamplingParams
from target_service.verifier import Verify
from tests.unit.scripted import VOCAB, ScriptedRunner, claim_of, continuation, drain, next_token, submit

PROMPT = (3, 1, 4)
GREEDY = SamplingParams()


def verdict_on(block: tuple[int, ...], engine: Engine | None = None) -> tuple[Verdict, int]:
    """Verdict on a block after the prompt, and the cached length."""
    engine = engine or Engine(ScriptedRunner())
    _, inbox = submit(engine, "a", claim_of(PROMPT), Verify(GREEDY, block, VOCAB))
    drain(engine)
    return inbox.outcome.result, inbox.outcome.cached_len


def test_a_right_block_is_accepted_whole_with_a_bonus() -> None:
    expected = continuation(PROMPT, 5)
    assert verdict_on(tuple(expected[:4])) == (Verdict(4, expected[4]), len(PROMPT) + 4)


@pytest.mark.parametrize("wrong", [0, 1, 3])
def test_the_first_wrong_token_is_corrected_and_the_cache_cut_before_it(wrong: int) -> None:
    expected = continuation(PROMPT, 5)
    block = [*expected[:4]]
    block[wrong] = (block[wrong] + 1) % VOCAB
    assert verdict_on(tuple(block)) == (Verdict(wrong, expected[wrong]), len(PROMPT) + wrong)


def test_an_empty_block_is_one_step_of_decoding() -> None:
    assert verdict_on(()) == (Verdict(0, next_token(PROMPT)), len(PROMPT))


def test_a_block_is_verified_in_one_pass() -> None:
    runner = ScriptedRunner()
    verdict_on(tuple(continuation(PROMPT, 8)), Engine(runner))
    assert len(runner.passes) == 1


@given(st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=5), min_size=1, max_size=6), st.data())
@settings(max_examples=80)
def test_rounds_in_a_row_give_the_models_own_text_whatever_is_proposed(
    blocks: list[list[int]], data: st.DataObject
) -> None:
    engine, tokens = Engine(ScriptedRunner()), list(PROMPT)
    cached = 0
    for junk in blocks:
        right = continuation(tokens, data.draw(st.integers(0, 4)))
        program = Verify(GREEDY, (*right, *junk), VOCAB)
        _, inbox = submit(engine, "a", claim_of(tokens, cached), program)
        drain(engine)
        verdict: Verdict = inbox.outcome.result
        tokens += [*program.tail[: verdict.num_accepted], verdict.next_token]
        cached = inbox.outcome.cached_len
        assert verdict.num_accepted >= len(right)
    assert tokens == [*PROMPT, *continuation(PROMPT, len(tokens) - len(PROMPT))]


def test_positions_count_from_the_committed_tokens() -> None:
    """The context that the engine hands over holds the block too; noise positions must not."""
    params = SamplingParams(temperature=1.0, seed=5)
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(1))
    block = (choose(logits[0], (), params, 3), choose(logits[1], (), params, 4))
    step = Verify(params, block, VOCAB).advance(logits, [*PROMPT, *block])
    assert step == Done(Verdict(2, choose(logits[2], (), params, 5)), keep=5)


def test_padded_rows_of_the_embedding_table_are_never_chosen() -> None:
    logits = torch.zeros(1, VOCAB)
    logits[0, 5], logits[0, 20] = 1.0, 9.0
    assert Verify(GREEDY, (), 10).advance(logits, PROMPT) == Done(Verdict(0, 5), keep=3)


def test_log_probabilities_ignore_padded_rows() -> None:
    logits = torch.zeros(1, VOCAB)
    step = Verify(GREEDY, (), 4, logprobs=True).advance(logits, PROMPT)
    assert isinstance(step, Done)
    assert step.result.logprobs == pytest.approx((-1.3862943611198906,))


def test_bad_logits_that_matter_fail_the_round_and_forget_the_session() -> None:
    runner = ScriptedRunner()
    runner.bad.add(PROMPT)
    engine = Engine(runner)
    _, inbox = submit(engine, "a", claim_of(PROMPT), Verify(GREEDY, (), VOCAB))
    drain(engine)
    assert isinstance(inbox.error, NonFiniteLogits)
    assert len(engine.sessions) == 0


def test_bad_logits_behind_a_rejection_do_not_matter() -> None:
    runner = ScriptedRunner()
    wrong = (next_token(PROMPT) + 1) % VOCAB
    runner.bad.add((*PROMPT, wrong))
    assert verdict_on((wrong,), Engine(runner)) == (Verdict(0, next_token(PROMPT)), 3)


@given(st.integers(1, 12), st.integers(0, 12))
@settings(max_examples=40)
def test_a_run_tells_each_choice_as_if_it_had_been_asked_for(run: int, told: int) -> None:
    """Each verdict has the cached length that a round of its own would have; cancelled on the way, what it told of
    stays cached and the next round goes on from there."""
    engine, expected = Engine(ScriptedRunner()), continuation(PROMPT, run + 2)
    job, inbox = submit(engine, "a", claim_of(PROMPT), Verify(GREEDY, (), VOCAB, run=run))
    for _ in range(told):
        engine.step()
    job.cancelled = told <= run
    drain(engine)
    outcomes = [outcome for outcome in inbox.delivered if isinstance(outcome, Outcome)]
    length = told if job.cancelled else run + 1
    assert [outcome.result for outcome in outcomes] == [Verdict(0, token) for token in expected[:length]]
    assert [outcome.cached_len for outcome in outcomes] == [len(PROMPT) + i for i in range(length)]
    assert [outcome.last for outcome in outcomes] == [i == run for i in range(length)]
    if length:
        tokens = [*PROMPT, *expected[:length]]
        _, inbox = submit(engine, "a", claim_of(tokens, len(tokens) - 1), Verify(GREEDY, (), VOCAB))
        drain(engine)
        assert inbox.outcome.result == Verdict(0, expected[length])
    assert engine.release("a") is bool(length)
    assert engine.pool.held == 0


def test_a_released_session_goes_with_its_run() -> None:
    engine = Engine(ScriptedRunner())
    submit(engine, "a", claim_of(PROMPT), Verify(GREEDY, (), VOCAB, run=20))
    engine.step()
    assert engine.release("a")
    drain(engine)
    assert (engine.pool.held, len(engine.sessions)) == (0, 0)


def test_the_passes_of_a_run_are_counted_with_its_rounds() -> None:
    """Each verdict tells of its own pass, and only the first one of waiting."""
    engine = Engine(ScriptedRunner())
    _, inbox = submit(engine, "a", claim_of(PROMPT), Verify(GREEDY, (), VOCAB, run=2))
    drain(engine)
    assert [outcome.timings.passes for outcome in inbox.delivered if isinstance(outcome, Outcome)] == [1, 1, 1]
    assert [o.timings.queue_us for o in inbox.delivered[1:] if isinstance(o, Outcome)] == [0, 0]
