"""The plan of a pass: within its budget, steps first, prompts share fairly, wanted rows never split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.inference.schedule import RowBudget, Shape, rows_per_job

BUDGET = RowBudget()
MOST_WANTED = 65


@st.composite
def job_lists(draw: st.DrawFn) -> list[Shape]:
    """Jobs with 1 <= wanted <= pending, as the engine makes them: wanted is 1 to 65."""
    pending = st.one_of(st.integers(1, 40), st.integers(1, 2000))
    lists = draw(st.lists(st.tuples(pending, st.booleans()), max_size=40))
    return [Shape(rows, draw(st.integers(1, min(rows, MOST_WANTED))), running) for rows, running in lists]


budgets = st.sampled_from([BUDGET, RowBudget(rows=128), RowBudget(rows=66), RowBudget(rows=512, prompt_floor=8)])
chunks = st.sampled_from([16, 64, 256])


def step(k: int = 0) -> Shape:
    """A verify block of k draft tokens of a running session."""
    return Shape(k + 1, k + 1, True)


def prompt(tokens: int) -> Shape:
    return Shape(tokens, 1)


@given(job_lists(), budgets, chunks)
def test_a_pass_never_exceeds_its_budget_or_a_jobs_rows(jobs: list[Shape], budget: RowBudget, chunk: int) -> None:
    rows = rows_per_job(jobs, budget, chunk)
    assert len(rows) == len(jobs)
    assert sum(rows) <= budget.rows
    assert all(0 <= granted <= job.pending for granted, job in zip(rows, jobs, strict=True))


@given(job_lists(), budgets, chunks)
def test_prompts_stay_within_the_chunk_unless_the_oldest_wants_more_in_one_piece(
    jobs: list[Shape], budget: RowBudget, chunk: int
) -> None:
    rows = rows_per_job(jobs, budget, chunk)
    prompts = [i for i, job in enumerate(jobs) if not job.short(budget)]
    if prompts:
        assert sum(rows[i] for i in prompts) <= max(chunk, jobs[prompts[0]].wanted)


@given(job_lists(), budgets, chunks)
def test_rows_whose_logits_are_wanted_are_never_split_over_passes(
    jobs: list[Shape], budget: RowBudget, chunk: int
) -> None:
    """A job gets all its rows, or stops before the first wanted one."""
    for granted, job in zip(rows_per_job(jobs, budget, chunk), jobs, strict=True):
        assert granted == job.pending or granted <= job.pending - job.wanted


@given(job_lists(), budgets, chunks)
def test_a_step_is_run_whole_or_waits(jobs: list[Shape], budget: RowBudget, chunk: int) -> None:
    for granted, job in zip(rows_per_job(jobs, budget, chunk), jobs, strict=True):
        assert not job.short(budget) or granted in (0, job.pending)


@given(job_lists(), budgets, chunks)
def test_the_oldest_job_always_moves_and_so_does_the_oldest_prompt(
    jobs: list[Shape], budget: RowBudget, chunk: int
) -> None:
    """Hence every job ends: whoever waits longest is the oldest one day. A prompt may have to wait only for steps
    that are older than it and leave no room at all."""
    rows = rows_per_job(jobs, budget, chunk)
    assert not jobs or rows[0] > 0
    prompts = [i for i, job in enumerate(jobs) if not job.short(budget)]
    if prompts and jobs[0].pending <= budget.rows - MOST_WANTED:
        assert rows[prompts[0]] > 0


@given(job_lists(), budgets, chunks)
def test_every_job_ends_within_a_bounded_number_of_passes(jobs: list[Shape], budget: RowBudget, chunk: int) -> None:
    """Each pass runs the oldest job, or at least half a chunk of the oldest prompt: so many passes are enough."""
    bound = sum(2 + 2 * job.pending // min(chunk, budget.prompt_floor) for job in jobs)
    left = list(jobs)
    for _ in range(bound):
        rows = rows_per_job(left, budget, chunk)
        left = [
            Shape(job.pending - granted, job.wanted, job.running)
            for job, granted in zip(left, rows, strict=True)
            if job.pending - granted
        ]
    assert left == []


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=20), chunks)
def test_a_prompt_is_not_held_up_by_longer_ones(others: list[int], chunk: int) -> None:
    """100 tokens among any number of longer prompts are through when half the chunks have covered them."""
    left = [Shape(other + 100, 1) for other in others]
    passes = 0
    mine = 100
    while mine:
        rows = rows_per_job([*left, prompt(mine)], BUDGET, chunk)
        mine -= rows[-1]
        left = [Shape(shape.pending - granted, 1) for shape, granted in zip(left, rows, strict=False)]
        left = [shape for shape in left if shape.pending > 0]
        passes += 1
    assert passes <= -(-100 // (chunk // 2)) + len(others)


@given(st.integers(0, 100), chunks)
def test_a_long_prompt_is_not_starved_by_new_short_ones(short_ones: int, chunk: int) -> None:
    """The oldest has half of every chunk, however many come."""
    rows = rows_per_job([prompt(8000), *[prompt(20)] * short_ones], BUDGET, chunk)
    assert rows[0] >= chunk // 2


def test_steps_go_before_older_prompts() -> None:
    assert rows_per_job([prompt(1000), step(7), step()], BUDGET, 256) == [247, 8, 1]


def test_the_chunk_bounds_what_a_prompt_takes_beside_steps() -> None:
    assert rows_per_job([prompt(1000), step(7), step()], BUDGET, 64) == [64, 8, 1]


def test_the_oldest_prompt_and_the_shortest_share_and_what_they_leave_is_used() -> None:
    assert rows_per_job([prompt(1000), prompt(2000), prompt(100)], BUDGET, 256) == [128, 28, 100]
    assert rows_per_job([prompt(1000), prompt(20)], BUDGET, 256) == [236, 20]
    assert rows_per_job([prompt(20), prompt(1000)], BUDGET, 256) == [20, 236]


def test_a_short_prompt_of_a_new_session_is_a_prompt_and_a_long_catch_up_too() -> None:
    """64 arrivals of 20 tokens must not fill a pass beside running sessions."""
    assert sum(rows_per_job([step(), *[prompt(20)] * 64], BUDGET, 64)) <= 1 + 64
    assert rows_per_job([step(), Shape(500, 1, True)], BUDGET, 64) == [1, 64]


def test_steps_leave_prompts_their_floor() -> None:
    rows = rows_per_job([prompt(1000), *[step(31)] * 20], BUDGET, 256)
    assert rows[0] == 32
    assert sum(rows) == 256


@pytest.mark.parametrize("pending", [33, 64, 65])
def test_a_long_verify_block_is_not_starved_by_other_steps(pending: int) -> None:
    """All its rows are wanted, so nothing but the whole block is progress."""
    assert rows_per_job([Shape(pending, pending, True), *[step(31)] * 20], BUDGET, 64)[0] == pending


def test_a_prompt_stops_before_its_wanted_rows_when_they_do_not_fit() -> None:
    assert rows_per_job([Shape(260, 9)], BUDGET, 256) == [251]
