"""The numbers of rounds sum to what the rounds were, whatever they were."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.meters import Meters
from orchestrator.plans import Drafter
from orchestrator.totals import Round, Totals
from outrider.instruments import Counter, Reading


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    k = draw(st.integers(0, 6))
    accepted = draw(st.integers(0, k))
    drafter = draw(st.sampled_from([Drafter.MODEL, Drafter.NGRAM])) if k else Drafter.NONE
    emitted = draw(st.integers(1, accepted + 1))
    hit = draw(st.sampled_from([None, True, False])) if drafter is Drafter.MODEL else None
    return Round(
        0, (5,) * k, accepted, (6,) * emitted, (), 1000, 2000, drafter, hit=hit, wasted=draw(st.integers(0, 9))
    )


@given(st.lists(rounds()))
def test_the_counts_are_those_of_the_totals(done: list[Round]) -> None:
    """One definition per number: what is exported sums to what answers report."""
    meters, totals = Meters(), Totals()
    for each in done:
        meters.round(each)
        totals.add(each)
    assert sum(meters.rounds().values()) == meters.round_s.count() == totals.rounds
    assert sum(meters.emitted().values()) == totals.emitted
    assert sum(meters.proposed().values()) == sum(meters.proposed_at().values()) == totals.proposed
    assert sum(meters.accepted().values()) == sum(meters.accepted_at().values()) == totals.accepted
    assert meters.proposed().get((Drafter.NGRAM.value,), 0) == totals.copied
    assert (meters.look_aheads.total(), meters.look_aheads.total("hit")) == (totals.look_aheads, totals.hits)
    assert meters.drafts == sum(1 for each in done if each.block)
    assert meters.wasted.total() == sum(each.wasted for each in done)


def test_what_was_not_proposed_is_unobserved_not_rejected() -> None:
    meters = Meters()
    for k, accepted in ((1, 1), (3, 1), (3, 3)):
        meters.round(Round(0, (5,) * k, accepted, (6,), (), 0, 0, Drafter.MODEL))
    assert meters.proposed_at() == {(0,): 3, (1,): 2, (2,): 2}
    assert meters.accepted_at() == {(0,): 3, (1,): 1, (2,): 1}


def test_a_round_of_a_run_has_no_network_time() -> None:
    meters = Meters()
    meters.tiers["target"].exchange(0.02, None, 40)
    meters.tiers["target"].exchange(0.03, 2000, 40)
    assert (meters.exchange_s.count("target"), meters.network_s.count("target")) == (2, 1)
    assert meters.bytes() == {("target", "received"): 80}


def test_every_instrument_is_offered_for_export_once() -> None:
    meters = Meters()
    names = [each.metric.name for each in meters.instruments()]
    assert len(set(names)) == len(names)
    own = {id(each) for each in vars(meters).values() if isinstance(each, Counter | Reading)}
    assert own <= {id(each) for each in meters.instruments()}
