"""Sums follow the definitions of the README, whatever rounds an answer is made of."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.plans import Drafter
from orchestrator.totals import Round, Totals


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """A verdict on up to 8 draft tokens; the answer may end within it."""
    block = draw(st.lists(st.integers(0, 9), max_size=8))
    accepted = draw(st.integers(0, len(block)))
    emitted = (*block[:accepted], 7)[: draw(st.integers(1, 9))]
    drafter = draw(st.sampled_from([Drafter.NGRAM, Drafter.MODEL])) if block else Drafter.NONE
    hit = draw(st.sampled_from([None, True, False]))
    return Round(0, tuple(block), accepted, emitted, (), 0, 0, drafter, hit=hit)


@given(st.lists(rounds(), max_size=12))
def test_sums_are_those_of_the_rounds(done: list[Round]) -> None:
    totals = Totals()
    for each in done:
        totals.add(each)
    assert totals.rounds == len(done)
    assert totals.proposed == sum(len(each.block) for each in done)
    assert totals.accepted == sum(each.num_accepted for each in done)
    assert totals.emitted == sum(len(each.emitted) for each in done)
    assert (totals.draft_faults, totals.cached_prompt_tokens) == (0, 0), "no round knows of these"


@given(st.lists(rounds(), max_size=12))
def test_parts_are_no_more_than_the_whole(done: list[Round]) -> None:
    totals = Totals()
    for each in done:
        totals.add(each)
    assert 0 <= totals.accepted <= totals.proposed
    assert totals.emitted <= totals.accepted + totals.rounds, "a round emits one token of the target's own at most"
    assert 0 <= totals.copied <= totals.proposed
    assert 0 <= totals.hits <= totals.look_aheads <= totals.rounds


def test_a_miss_is_a_look_ahead_and_no_hit_and_a_round_without_is_neither() -> None:
    totals = Totals()
    for hit in (True, False, False, None):
        totals.add(Round(0, (1,), 1, (1, 2), (), 0, 0, Drafter.MODEL, hit=hit))
    assert (totals.look_aheads, totals.hits) == (3, 1)


def test_only_blocks_of_the_ngram_drafter_are_copies() -> None:
    totals = Totals()
    for drafter in (Drafter.MODEL, Drafter.NGRAM):
        totals.add(Round(0, (1, 2, 3), 0, (5,), (), 0, 0, drafter))
    assert totals.copied == 3
