"""Acceptance per position: rounds that did not propose a position, or lost the ones before, say nothing of it."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.acceptance import Acceptance, through


def learned(blocks: list[tuple[int, int]], half_life: float = 1e9) -> Acceptance:
    made = Acceptance(half_life)
    for proposed, accepted in blocks:
        made.note(proposed, accepted, 0.0)
    return made


def test_unproposed_is_unobserved() -> None:
    """1 000 blocks of one token, all accepted, leave the second position as unknown as it was: like the first."""
    chances = learned([(1, 1)] * 1000).chances(3, 0.0)
    assert chances[0] > 0.99
    assert chances[1:] == [chances[0], chances[0]]


def test_behind_a_rejected_token_nothing_is_seen() -> None:
    made = learned([(4, 1)] * 1000)
    first, second, third, _ = made.chances(4, 0.0)
    assert first > 0.99
    assert second < 0.02
    assert third == second, "never seen: like the position before"


@pytest.mark.parametrize("chance", [0.2, 0.6, 0.9])
def test_the_length_of_blocks_does_not_bend_what_is_learned(chance: float) -> None:
    """False alarm: 0.04 is more than four standard errors of the worst of these shares."""
    luck = random.Random(1)
    blocks = []
    for _ in range(8000):
        proposed = luck.choice((1, 2, 5))
        blocks.append((proposed, next((n for n in range(proposed) if luck.random() >= chance), proposed)))
    assert learned(blocks).chances(2, 0.0) == pytest.approx([chance, chance], abs=0.04)


def test_a_session_is_like_its_pool_until_it_shows_otherwise() -> None:
    pool = [0.6, 0.5, 0.5]
    own = Acceptance(1e9)
    assert own.chances_within(pool, 0.0) == pytest.approx(pool)
    for _ in range(30):
        own.note(1, 1, 0.0)
    first, second, _ = own.chances_within(pool, 0.0)
    assert first > 0.9
    assert second > 0.7, "better at the first position: expected to be better at the next"


def test_old_rounds_are_forgotten() -> None:
    made = Acceptance(half_life=10.0)
    for _ in range(100):
        made.note(1, 0, 0.0)
    made.note(1, 1, 200.0)
    assert made.chances(1, 200.0)[0] > 0.6


@given(st.lists(st.floats(0.0, 1.0), max_size=20))
def test_acceptance_never_rises_with_the_position(chances: list[float]) -> None:
    shares = (1.0, *through(chances))
    assert all(later <= earlier for earlier, later in pairwise(shares))
