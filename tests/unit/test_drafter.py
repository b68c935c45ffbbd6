"""The drafter proposes what the choice rule gives, and bad logits only end its block."""

import pytest
import torch

from draft_service.drafter import Propose
from outrider.choice import choose
from outrider.inference.engine import Engine
from outrider.inference.program import Done, More
from outrider.sampling import SamplingParams
from outrider.tokens import CacheMiss
from tests.unit.scripted import VOCAB, ScriptedRunner, claim_of, continuation, drain, submit

PROMPT = (3, 1, 4)
GREEDY = SamplingParams()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_block_is_greedy_decoding_and_its_last_token_is_not_run(count: int) -> None:
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner)
    _, inbox = submit(engine, "a", claim_of(PROMPT), Propose(GREEDY, count, VOCAB))
    drain(engine)
    assert inbox.outcome.result == tuple(continuation(PROMPT, count))
    assert inbox.outcome.cached_len == len(PROMPT) + count - 1
    assert len(runner.passes) == count


def test_the_next_round_catches_up_from_what_is_cached() -> None:
    """All accepted plus the bonus: two tokens are new to the draft."""
    runner = ScriptedRunner(row_multiple=1)
    engine = Engine(runner)
    submit(engine, "a", claim_of(PROMPT), Propose(GREEDY, 3, VOCAB))
    drain(engine)
    longer = [*PROMPT, *continuation(PROMPT, 4)]
    _, inbox = submit(engine, "a", claim_of(longer, len(PROMPT) + 2), Propose(GREEDY, 2, VOCAB))
    drain(engine)
    assert inbox.outcome.result == tuple(continuation(longer, 2))
    assert len(runner.passes[3].tokens) == 2


def test_sampling_uses_the_shared_noise_at_the_absolute_position() -> None:
    params = SamplingParams(temperature=1.0, seed=11)
    program = Propose(params, 1, VOCAB)
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(0))
    step = program.advance(logits, PROMPT)
    assert step == Done((choose(logits[0], PROMPT, params, len(PROMPT)),), keep=len(PROMPT))


def test_ids_beyond_the_vocabulary_are_never_proposed() -> None:
    """Padded rows of the embedding table may have the largest logits; they are no tokens."""
    logits = torch.zeros(1, VOCAB)
    logits[0, 5], logits[0, 20] = 1.0, 9.0
    assert Propose(GREEDY, 1, 10).advance(logits, PROMPT) == Done((5,), keep=len(PROMPT))


def test_bad_logits_end_the_block_without_an_error_and_distrust_the_cache() -> None:
    program = Propose(GREEDY, 4, VOCAB)
    first = program.advance(torch.nn.functional.one_hot(torch.tensor([[7]]), VOCAB)[0].float(), PROMPT)
    assert first == More((7,))
    assert program.advance(torch.full((1, VOCAB), float("nan")), [*PROMPT, 7]) == Done((7,), keep=0)


def test_bad_logits_at_once_give_an_empty_block() -> None:
    runner = ScriptedRunner()
    runner.bad.add(PROMPT)
    engine = Engine(runner)
    _, inbox = submit(engine, "a", claim_of(PROMPT), Propose(GREEDY, 4, VOCAB))
    drain(engine)
    assert (inbox.outcome.result, inbox.outcome.cached_len) == ((), 0)


def test_growth_covers_exactly_the_tokens_that_are_run() -> None:
    assert [Propose(GREEDY, count, VOCAB).growth for count in (1, 5)] == [0, 4]


def test_a_miss_reaches_the_caller_as_such() -> None:
    engine = Engine(ScriptedRunner())
    _, inbox = submit(engine, "a", claim_of(PROMPT, 2), Propose(GREEDY, 4, VOCAB))
    drain(engine)
    assert inbox.outcome.result == CacheMiss(0)
