"""The plan of a pass: within its budget, short work first, prompts never starved, wanted rows never split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.inference.schedule import RowBudget, rows_per_job

BUDGET = RowBudget()


@st.composite
def job_lists(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(pending, wanted) with 1 <= wanted <= pending, as the engine makes them: wanted is 1 to 65."""
    pending = st.one_of(st.integers(1, 40), st.integers(1, 2000))
    return [(rows, draw(st.integers(1, min(rows, 65)))) for rows in draw(st.lists(pending, max_size=40))]


budgets = st.sampled_from([BUDGET, RowBudget(rows=128), RowBudget(rows=66), RowBudget(rows=512, prompt_floor=8)])


@given(job_lists(), budgets)
def test_a_pass_never_exceeds_its_budget_or_a_jobs_rows(jobs: list[tuple[int, int]], budget: RowBudget) -> None:
    rows = rows_per_job(jobs, budget)
    assert len(rows) == len(jobs)
    assert sum(rows) <= budget.rows
    assert all(0 <= granted <= pending for granted, (pending, _) in zip(rows, jobs, strict=True))


@given(job_lists(), budgets)
def test_rows_whose_logits_are_wanted_are_never_split_over_passes(
    jobs: list[tuple[int, int]], budget: RowBudget
) -> None:
    """A job gets all its rows, or stops before the first wanted one."""
    for granted, (pending, wanted) in zip(rows_per_job(jobs, budget), jobs, strict=True):
        assert granted == pending or granted <= pending - wanted


@given(job_lists(), budgets)
def test_a_short_job_is_run_whole_or_waits(jobs: list[tuple[int, int]], budget: RowBudget) -> None:
    for granted, (pending, _) in zip(rows_per_job(jobs, budget), jobs, strict=True):
        assert pending > budget.short or granted in (0, pending)


@given(job_lists(), budgets)
def test_some_work_is_always_done(jobs: list[tuple[int, int]], budget: RowBudget) -> None:
    assert not jobs or sum(rows_per_job(jobs, budget)) > 0


@given(job_lists(), budgets)
def test_the_oldest_prompt_always_progresses(jobs: list[tuple[int, int]], budget: RowBudget) -> None:
    """However many short jobs there are; a verify block of 65 wanted rows is such a prompt too."""
    prompts = [i for i, (pending, _) in enumerate(jobs) if pending > budget.short]
    if prompts:
        assert rows_per_job(jobs, budget)[prompts[0]] > 0


@given(job_lists(), budgets)
def test_repeated_passes_finish_every_job(jobs: list[tuple[int, int]], budget: RowBudget) -> None:
    left = list(jobs)
    passes = 0
    while left:
        rows = rows_per_job(left, budget)
        left = [(p - r, w) for (p, w), r in zip(left, rows, strict=True) if p - r]
        passes += 1
        assert passes <= sum(pending for pending, _ in jobs)


def test_short_jobs_go_before_older_prompts() -> None:
    assert rows_per_job([(1000, 1), (8, 8), (1, 1)], BUDGET) == [247, 8, 1]


def test_prompts_share_what_is_left_the_oldest_first() -> None:
    assert rows_per_job([(200, 1), (300, 1)], BUDGET) == [200, 56]


def test_short_jobs_leave_the_oldest_prompt_its_floor() -> None:
    rows = rows_per_job([(1000, 1), *[(32, 32)] * 20], BUDGET)
    assert rows[0] == 32
    assert sum(rows) == 256


@pytest.mark.parametrize("pending", [33, 64, 65])
def test_a_long_verify_block_is_not_starved_by_short_jobs(pending: int) -> None:
    """All its rows are wanted, so nothing but the whole block is progress."""
    assert rows_per_job([(pending, pending), *[(32, 32)] * 20], BUDGET)[0] == pending


def test_a_prompt_stops_before_its_wanted_rows_when_they_do_not_fit() -> None:
    assert rows_per_job([(260, 9)], BUDGET) == [251]
