"""Costs follow what was measured, in any order, and are guessed sensibly where nothing was."""

import pytest

from orchestrator.plans import Drafter, Observation, Plan
from orchestrator.timings import Timings

BLOCK = Plan(Drafter.MODEL, 2)


def verdict(rows: int, seconds: float, trip: float = 0.001, plan: Plan | None = None, passes: int = 1) -> Observation:
    return Observation(
        plan=plan or Plan(),
        proposed=0,
        accepted=0,
        emitted=1,
        verify_s=seconds + trip,
        target_forward_s=seconds,
        target_batch_rows=rows,
        target_passes=passes,
    )


def proposal(k: int, forward: float, trip: float = 0.001, rows: int = 1, proposed: int | None = None) -> Observation:
    return Observation(
        plan=Plan(Drafter.MODEL, k),
        proposed=k if proposed is None else proposed,
        accepted=0,
        emitted=1,
        propose_s=forward + trip,
        verify_s=0.02,
        draft_forward_s=forward,
        draft_passes=0 if proposed == 0 else k,
        draft_batch_rows=rows,
    )


def test_without_measurements_there_are_guesses_that_let_it_begin() -> None:
    costs = Timings().costs(1, 0.0)
    assert 0 < costs.draft_s(1) < costs.target_s(1)
    assert costs.rtt_draft_s > 0
    assert not Timings().draft_known


def test_passes_lie_on_lines_between_the_sizes_measured() -> None:
    timings = Timings()
    for rows, seconds in ((1, 0.010), (5, 0.012), (64, 0.084)):
        timings.note_target(verdict(rows, seconds), 0.0)
    costs = timings.costs(1, 0.0)
    assert costs.target_s(1) == pytest.approx(0.010)
    assert costs.target_s(3) == pytest.approx(0.011)
    assert costs.target_s(5) == pytest.approx(0.012)
    assert costs.target_s(64) == pytest.approx(0.084)
    assert costs.rtt_target_s == pytest.approx(0.001, abs=1e-4)


def test_a_round_of_several_passes_is_no_pass() -> None:
    timings = Timings()
    timings.note_target(verdict(1, 0.010), 0.0)
    timings.note_target(verdict(1, 5.0, passes=9), 0.0)
    assert timings.costs(1, 0.0).target_s(1) == pytest.approx(0.010)


def test_a_slow_draft_is_known_after_one_proposal_and_a_change_after_two() -> None:
    timings = Timings()
    timings.note_draft(proposal(1, 0.2), 1, 0.0, by_itself=True)
    assert timings.costs(1, 0.0).draft_s(1) == pytest.approx(0.2)
    for _ in range(8):
        timings.note_draft(proposal(2, 0.008), 1, 0.0, by_itself=True)
    assert timings.costs(1, 0.0).draft_s(1) == pytest.approx(0.004)
    for _ in range(2):
        timings.note_draft(proposal(2, 0.4), 1, 0.0, by_itself=True)
    assert timings.costs(1, 0.0).draft_s(1) == pytest.approx(0.2)


def test_reading_the_prompt_is_told_apart_from_drafting() -> None:
    """100 tokens at 0.1 ms each, then 4 ms a token."""
    timings = Timings()
    timings.note_target(verdict(1, 0.010), 0.0)
    timings.note_draft(proposal(1, 0.014), 100, 0.0, by_itself=True)
    assert timings.draft_known
    for _ in range(3):
        timings.note_draft(proposal(2, 0.008), 2, 0.0, by_itself=True)
    costs = timings.costs(1, 0.0)
    assert costs.draft_s(1) == pytest.approx(0.004, rel=0.35)
    assert timings.reading_s(200, costs, 0.0) == pytest.approx(0.02, rel=0.35)
    assert timings.reading_s(3, costs, 0.0) == 0.0


def test_a_draft_that_does_not_answer_is_as_slow_as_the_wait() -> None:
    timings = Timings()
    timings.note_draft(proposal(2, 2.0, proposed=0), 1, 0.0, by_itself=True)
    assert timings.costs(1, 0.0).draft_s(1) == pytest.approx(1.0, rel=0.01)


def test_more_rows_than_were_measured_cost_the_draft_what_they_cost_the_target() -> None:
    timings = Timings()
    for rows, seconds in ((1, 0.010), (16, 0.030)):
        timings.note_target(verdict(rows, seconds), 0.0)
    timings.note_draft(proposal(1, 0.002), 1, 0.0, by_itself=True)
    costs = timings.costs(1, 0.0)
    assert costs.draft_s(16) == pytest.approx(0.006)


def test_passes_in_company_and_sizes_of_long_ago_are_not_believed() -> None:
    timings = Timings()
    timings.note_draft(proposal(1, 0.002), 1, 0.0, by_itself=True)
    timings.note_draft(proposal(1, 0.5, rows=16), 1, 0.0, by_itself=False)
    assert timings.costs(1, 0.0).draft_s(1) == pytest.approx(0.002)
    timings.note_target(verdict(16, 0.9), 0.0)
    timings.note_target(verdict(1, 0.01), 5000.0)
    assert timings.costs(1, 5000.0).target_s(16) < 0.1, "a bad day of 16 rows"
