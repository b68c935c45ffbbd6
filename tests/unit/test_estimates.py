"""The pool learns from rounds that show something: what a prompt, another's probe or a mixture distorts is left out."""

import pytest

from orchestrator.copies import USUAL
from orchestrator.estimates import PoolEstimates
from orchestrator.plans import Drafter, Observation, Plan, Situation
from orchestrator.rounds import PLAIN

SERIAL = (Drafter.MODEL, False)


def plain_round(seconds: float = 0.01, rows: int = 1, follows: bool = True, passes: int = 1) -> Observation:
    return Observation(
        plan=Plan(run=3),
        proposed=0,
        accepted=0,
        emitted=1,
        verify_s=seconds,
        follows=follows,
        target_forward_s=seconds,
        target_batch_rows=rows,
        target_passes=passes,
    )


def told(*rounds: Observation, sessions: int = 1, behind: int = 1) -> PoolEstimates:
    pool = PoolEstimates()
    for seen in rounds:
        pool.observe(seen, Situation(100, sessions=sessions, draft_behind=behind), first=False)
    return pool


def test_plain_rounds_are_known_after_a_few() -> None:
    assert not told(*[plain_round()] * 3).plain_known(1)
    pool = told(*[plain_round()] * 5)
    assert pool.plain_known(1)
    assert pool.plain_s(1) == pytest.approx(0.01)
    assert not pool.plain_known(2), "at another load"
    assert pool.now == 5.0
    pool.now += 5000.0
    pool.observe(plain_round(), Situation(100), first=False)
    assert pool.plain_known(1), "what was known once is known less well, but known"


def test_time_is_counted_in_tokens_of_a_session() -> None:
    assert told(*[plain_round(rows=4)] * 8, sessions=4).now == pytest.approx(2.0)


@pytest.mark.parametrize("odd", [plain_round(0.5, rows=200), plain_round(0.5, passes=3)])
def test_rounds_with_a_prompt_in_them_are_no_plain_rounds(odd: Observation) -> None:
    assert told(*[odd] * 8).rounds.weight(PLAIN, 0, 1, 8.0) == 0.0


def test_the_first_round_of_an_answer_is_no_plain_round() -> None:
    pool = PoolEstimates()
    pool.observe(plain_round(), Situation(100), first=True)
    assert pool.rounds.weight(PLAIN, 0, 1, 1.0) == 0.0


def test_what_a_probe_costs_the_others_is_charged_and_not_learned() -> None:
    pool = told(*[plain_round(rows=4)] * 40, sessions=4)
    before = pool.rounds.weight(PLAIN, 0, 4, pool.now)
    pool.budget.start(pool.now)
    for _ in range(3):
        pool.observe(plain_round(0.016, rows=5), Situation(100, sessions=4), first=False)
    assert pool.rounds.weight(PLAIN, 0, 4, pool.now) <= before
    assert pool.plain_s(4) == pytest.approx(0.01)
    pool.budget.settle(0.1, 0.0, pool.now)
    pool.budget.start(pool.now)
    pool.budget.settle(0.1, 0.0, pool.now)
    assert not pool.budget.allows(1.5, 1000.0), "three rounds lost 0.6 tokens each: another probe would too"


def test_a_round_that_was_planned_with_a_block_and_had_none_tells_nothing() -> None:
    seen = Observation(
        plan=Plan(Drafter.MODEL, 2), proposed=0, accepted=0, emitted=1, verify_s=0.01, target_batch_rows=1
    )
    pool = told(seen)
    assert pool.rounds.weight(SERIAL, 0, 1, 1.0) == pool.rounds.weight(PLAIN, 0, 1, 1.0) == 0.0


def test_drafters_are_told_apart_and_copies_by_their_match() -> None:
    copy = Observation(plan=Plan(Drafter.NGRAM, 4), proposed=4, accepted=4, emitted=5, verify_s=0.01)
    pool = PoolEstimates()
    for _ in range(20):
        pool.observe(copy, Situation(100, ngram_tokens=4, ngram_match=16), first=False)
    curve = pool.copies.curve(pool.now)
    assert curve[-1] > 0.95
    assert curve[:-1] == pytest.approx(USUAL[:-1])
    assert pool.acceptance.chances(1, pool.now)[0] == pytest.approx(0.6)


def test_what_a_run_was_computing_is_no_part_of_the_round_that_broke_it_off() -> None:
    """The wait is the run's; the round took what is left, and its round trip is what is left of that."""
    seen = Observation(
        plan=Plan(Drafter.NGRAM, 4, breaks_off=True), proposed=4, accepted=4, emitted=5,
        verify_s=0.025, cycle_s=0.025, target_forward_s=0.012, target_queue_s=0.01, target_batch_rows=5,
    )  # fmt: skip
    pool = told(seen)
    for _ in range(20):
        pool.observe(seen, Situation(100, ngram_tokens=4, ngram_match=9), first=False)
    copies = (Drafter.NGRAM, False)
    costs = pool.timings.costs(1, pool.now)
    assert pool.rounds.seconds(copies, 4, 1, lambda count: 0.015, pool.now) == pytest.approx(0.015)
    assert costs.rtt_target_s == pytest.approx(0.003)
