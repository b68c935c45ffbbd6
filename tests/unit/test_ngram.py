"""The n-gram drafter offers what a naive search over all places would, however its text came about."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import ngram
from orchestrator.ngram import NO_MATCH, Match, NgramDrafter

TEXTS = st.lists(st.integers(0, 3), max_size=80)
"""Four tokens only, so that most texts repeat themselves; fewer places than one proposal looks at."""


def naive(tokens: Sequence[int], count: int, shortest: int, longest: int) -> Match:
    """The longest match of the end, capped; of equals the last; continued token by token from the text so made."""
    best, found = 0, 0
    for place in range(1, len(tokens)):
        length = 0
        while length < min(longest, place) and tokens[place - 1 - length] == tokens[len(tokens) - 1 - length]:
            length += 1
        if length >= max(best, shortest):
            best, found = length, place
    if not best or count <= 0:
        return NO_MATCH
    text = list(tokens)
    for i in range(count):
        text.append(text[found + i])
    return Match(tuple(text[len(tokens) :]), best)


@given(tokens=TEXTS, count=st.integers(-1, 12), shortest=st.integers(1, 3), more=st.integers(0, 6))
def test_a_proposal_is_what_a_naive_search_finds(tokens: list[int], count: int, shortest: int, more: int) -> None:
    drafter = NgramDrafter(tokens, shortest, shortest + more)
    assert drafter.propose(count) == naive(tokens, count, shortest, shortest + more)


@given(parts=st.lists(st.tuples(st.integers(0, 80), st.lists(st.integers(0, 3), max_size=20), st.booleans())))
def test_how_the_text_came_about_does_not_matter(parts: list[tuple[int, list[int], bool]]) -> None:
    """Cut and extended, with proposals in between or not: the offer is that of the same text in one piece."""
    drafter, text = NgramDrafter(), list[int]()
    for cut, new, ask in parts:
        length = min(cut, len(text))
        drafter.truncate(length)
        drafter.extend(new)
        text = [*text[:length], *new]
        if ask:
            assert drafter.propose(5) == NgramDrafter(text).propose(5)
    assert len(drafter) == len(text)
    assert drafter.propose(5) == NgramDrafter(text).propose(5)


@given(loop=st.lists(st.integers(0, 9), min_size=1, max_size=6), turns=st.integers(4, 20), count=st.integers(1, 40))
def test_a_loop_goes_on_beyond_the_end_of_the_text(loop: list[int], turns: int, count: int) -> None:
    text = [*range(100, 120), *loop * turns]
    assert NgramDrafter(text).propose(count).tokens == tuple((loop * (count + 1))[:count])


def test_the_longest_match_wins_over_a_more_recent_one() -> None:
    assert NgramDrafter([1, 2, 3, 4, 9, 3, 8, 2, 3, 5, 1, 2, 3]).propose(2) == Match((4, 9), 3)


def test_the_most_recent_of_equal_matches_wins() -> None:
    assert NgramDrafter([2, 3, 4, 2, 3, 5, 2, 3]).propose(1) == Match((5,), 2)


def test_matches_beyond_the_longest_compared_count_as_equal() -> None:
    text = [1, 2, 3, 4, 7, 9, 2, 3, 4, 8, 1, 2, 3, 4]
    assert NgramDrafter(text, longest=3).propose(1) == Match((8,), 3)
    assert NgramDrafter(text, longest=4).propose(1) == Match((7,), 4)


@pytest.mark.parametrize("tokens", [[], [1], [1, 2], [1, 2, 3], [5, 1, 2, 3]])
def test_a_text_without_repetition_offers_nothing(tokens: list[int]) -> None:
    assert NgramDrafter(tokens).propose(4) == NO_MATCH


def test_one_proposal_looks_at_the_most_recent_places_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longer match lies one place further back than a proposal looks."""
    monkeypatch.setattr(ngram, "_CANDIDATES", 2)
    text = [7, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2, 70, 7, 1, 2]
    assert NgramDrafter(text).propose(1) == Match((70,), 2)
    monkeypatch.setattr(ngram, "_CANDIDATES", 3)
    assert NgramDrafter(text).propose(1) == Match((50,), 3)


def test_texts_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """All n-grams in one slot: the walk compares tokens, never hashes."""
    monkeypatch.setattr(NgramDrafter, "_slot", lambda self, place: 0)
    monkeypatch.setattr(ngram, "hash", lambda gram: 0, raising=False)
    text = [1, 2, 3, 4, 5, 6, 1, 2]
    assert NgramDrafter(text).propose(3) == naive(text, 3, ngram.SHORTEST, ngram.LONGEST) == Match((3, 4, 5), 2)
    assert NgramDrafter([1, 2, 3, 4, 5, 6]).propose(3) == NO_MATCH


def test_the_index_grows_with_the_text() -> None:
    """Across every border of the table's size, token by token and at once."""
    tokens = [i * i % 251 for i in range(5000)]
    grown = NgramDrafter(tokens[:10])
    for start in range(10, 5000, 7):
        grown.propose(1)
        grown.extend(tokens[start : start + 7])
    assert len(grown) == 5000
    assert grown.propose(20) == NgramDrafter(tokens).propose(20) == naive(tokens, 20, ngram.SHORTEST, ngram.LONGEST)


def test_cutting_beyond_the_text_is_refused() -> None:
    drafter = NgramDrafter([1, 2])
    for length in (-1, 3):
        with pytest.raises(ValueError, match="cannot cut 2 tokens"):
            drafter.truncate(length)


def test_bounds_of_a_match_in_the_wrong_order_are_refused() -> None:
    for shortest, longest in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="shortest must be at least 1 and at most longest"):
            NgramDrafter((), shortest, longest)


def test_a_long_text_is_indexed_in_steps_and_matches_as_soon_as_it_is_whole() -> None:
    """One proposal never indexes more than a step; what the steps end with is the index of the whole text."""
    text = [i % 5000 for i in range(2 * ngram._STEP + 100)]
    drafter = NgramDrafter(text)
    assert [drafter.propose(3) for _ in range(2)] == [NO_MATCH, NO_MATCH]
    assert drafter.propose(3) == naive(text[-10_200:], 3, ngram.SHORTEST, ngram.LONGEST)
