"""Copies are believed in by the length of their match: each token that was right speaks for all that come so far."""

import pytest

from orchestrator.copies import USUAL, CopyAcceptance, along
from orchestrator.ngram import LONGEST, SHORTEST


def learned(verdicts: list[tuple[int, int, int]]) -> CopyAcceptance:
    made = CopyAcceptance(1e9)
    for match, proposed, accepted in verdicts:
        made.note(match, proposed, accepted, 0.0)
    return made


def test_before_anything_was_seen_longer_matches_are_likelier() -> None:
    assert learned([]).curve(0.0) == pytest.approx(USUAL)
    assert len(USUAL) == LONGEST - SHORTEST + 1
    assert list(USUAL) == sorted(USUAL)
    assert 0.4 < USUAL[0] < USUAL[-1] < 0.9


def test_a_block_speaks_for_every_length_it_went_through_and_for_no_other() -> None:
    """Four tokens behind a match of 3, of which two were right: 3 and 4 do well, 5 does not; 6 was never reached."""
    curve = learned([(3, 4, 2)] * 200).curve(0.0)
    by_length = dict(zip(range(SHORTEST, LONGEST + 1), curve, strict=True))
    assert by_length[3] > 0.95
    assert by_length[4] > 0.95
    assert by_length[5] < 0.05
    assert by_length[2] == pytest.approx(USUAL[0])


def test_the_next_token_of_a_copy_is_as_likely_as_one_behind_a_longer_match() -> None:
    curve = learned([]).curve(0.0)
    assert along(curve, 4, 3) == (curve[2], curve[3], curve[4])
    assert along(curve, 100, 2) == (curve[-1], curve[-1])
    assert along(curve, 15, 3) == (curve[-2], curve[-1], curve[-1])


def test_failures_make_copies_rare_at_once_and_at_the_next_lengths_somewhat() -> None:
    curve = learned([(4, 7, 0)] * 4).curve(0.0)
    assert curve[2] < 0.5 * USUAL[2]
    assert curve[2] / USUAL[2] < curve[3] / USUAL[3] < curve[4] / USUAL[4] < 1
    assert curve[-1] > 0.95 * USUAL[-1]


def test_a_text_bends_what_is_expected_of_it() -> None:
    pool, own = learned([(16, 7, 7)] * 50), learned([(16, 7, 0)] * 3)
    expected = pool.curve(0.0)
    assert expected[-1] > 0.97
    assert own.curve(0.0, expected)[-1] < 0.6


def test_old_copies_are_forgotten() -> None:
    made = CopyAcceptance(10.0)
    for _ in range(50):
        made.note(2, 1, 0, 0.0)
    assert made.curve(0.0)[0] < 0.1
    assert made.curve(200.0)[0] == pytest.approx(USUAL[0], abs=0.01)
