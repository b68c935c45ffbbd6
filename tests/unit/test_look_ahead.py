"""A look-ahead forks where the target may part from the block, at the draft's best candidates, likeliest first."""

import pytest
import torch

from draft_service.drafter import Propose
from draft_service.look_ahead import LookAhead, check_fanout
from outrider.choice import candidates, choose
from outrider.errors import InvalidArgument
from outrider.inference.program import Fork
from outrider.sampling import SamplingParams

VOCAB = 12
CONTEXT = [3, 1, 4, 7, 8]
BLOCK = (7, 8)
ROWS = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(4))
SAMPLED = SamplingParams(1.0, seed=5)


def looking(fanout: tuple[int, ...], params: SamplingParams = SAMPLED, count: int = 4, limit: int = 100) -> LookAhead:
    return LookAhead(params, BLOCK, fanout, count, VOCAB, limit)


def outcomes(fork: Fork) -> list[tuple[int, int]]:
    """(accepted, next token) of each branch in order."""
    return [(sprout.length - 3, sprout.token) for sprout in fork.branches]


@pytest.mark.parametrize("params", [SamplingParams(), SAMPLED])
def test_branches_are_the_best_candidates_without_the_draft_token(params: SamplingParams) -> None:
    fork = looking((3, 2, 2), params).advance(ROWS, CONTEXT)
    expected = set()
    for accepted, wanted in enumerate((3, 2, 2)):
        length = 3 + accepted
        best = list(candidates(ROWS[accepted], CONTEXT[:length], params, length, VOCAB))
        if accepted < len(BLOCK):
            best.remove(BLOCK[accepted])
        expected |= {(accepted, token) for token in best[:wanted]}
    assert set(outcomes(fork)) == expected
    assert (fork.keep, len(fork.branches)) == (5, 7)


def test_the_first_branch_after_the_whole_block_is_the_drafts_own_choice() -> None:
    fork = looking((0, 0, 1)).advance(ROWS, CONTEXT)
    assert outcomes(fork) == [(2, choose(ROWS[2], CONTEXT, SAMPLED, 5))]


def test_first_choices_come_before_second_ones_and_most_wanted_outcomes_before_others() -> None:
    fork = looking((1, 3, 2)).advance(ROWS, CONTEXT)
    assert [accepted for accepted, _ in outcomes(fork)] == [1, 2, 0, 1, 2, 1]


def test_a_branch_proposes_as_the_drafter_would_after_the_outcome() -> None:
    (sprout,) = looking((0, 1, 0), count=6).advance(ROWS, CONTEXT).branches
    assert sprout.program == Propose(SAMPLED, 6, VOCAB)


def test_branches_end_with_the_room_of_a_session() -> None:
    """The longest session here is 6 tokens: 3 committed, 2 accepted, the next token; its block is one not run."""
    fork = looking((1, 1, 1), limit=6).advance(ROWS, CONTEXT)
    counts = {sprout.length: sprout.program.growth + 1 for sprout in fork.branches}
    assert counts == {3: 3, 4: 2, 5: 1}
    assert {sprout.length for sprout in looking((1, 1, 1), limit=5).advance(ROWS, CONTEXT).branches} == {3, 4}


@pytest.mark.parametrize(("bad", "keep", "lengths"), [(0, 0, set()), (1, 3, {3}), (2, 4, {3, 4})])
def test_bad_logits_end_the_cache_and_the_branches_there(bad: int, keep: int, lengths: set[int]) -> None:
    rows = ROWS.clone()
    rows[bad, 5] = float("nan")
    fork = looking((2, 2, 2)).advance(rows, CONTEXT)
    assert (fork.keep, {sprout.length for sprout in fork.branches}) == (keep, lengths)


def test_ids_beyond_the_vocabulary_are_never_prepared_for() -> None:
    """Padded rows of the embedding table may have the largest logits; they are no tokens."""
    rows = torch.cat([ROWS, torch.full((3, 4), 99.0)], dim=1)
    assert looking((2, 2, 2)).advance(rows, CONTEXT) == looking((2, 2, 2)).advance(ROWS, CONTEXT)


@pytest.mark.parametrize(
    ("field", "fanout"),
    [
        ("look_ahead.fanout", (1, 1)),
        ("look_ahead.fanout", (1, 1, 1, 1)),
        ("look_ahead.fanout", ()),
        ("look_ahead.fanout[1]", (1, 17, 0)),
        ("look_ahead.fanout", (0, 0, 0)),
    ],
)
def test_a_bad_fanout_is_refused_by_name(field: str, fanout: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_fanout(fanout, 2)
    assert caught.value.field == field


def test_outcomes_are_bounded_together() -> None:
    assert check_fanout((16, 16, 16, 16), 3) == (16, 16, 16, 16)
    with pytest.raises(InvalidArgument, match="add up to 1 to 64, got 65"):
        check_fanout((16, 16, 16, 16, 1), 4)
