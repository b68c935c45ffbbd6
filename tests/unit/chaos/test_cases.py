"""What is asked is a function of the seed, and just so much of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.cases import make_cases, make_jobs


def test_cases_differ_in_all_that_matters() -> None:
    cases = make_cases(1)
    turns = [turn for case in cases for turn in case.turns]
    assert make_cases(1) == cases != make_cases(2)
    assert len({(turn.token_ids, turn.seed) for turn in turns}) == len(turns)
    assert {turn.temperature for turn in turns} == {0.0, 0.8}
    assert len({turn.max_new_tokens for turn in turns}) >= 3
    assert {len(case.turns) for case in cases} == {1, 2}
    assert {turn.logprobs for turn in turns} == {turn.ignore_eos for turn in turns} == {False, True}


@given(st.integers(0, 3), st.integers(1, 200))
def test_jobs_have_just_so_many_requests_numbered_in_order(seed: int, requests: int) -> None:
    jobs = make_jobs(seed, make_cases(seed), requests)
    numbers = [job.first + turn for job in jobs for turn in range(len(job.case.turns))]
    assert numbers == list(range(requests))


@pytest.mark.parametrize("requests", [100, 1000])
def test_every_case_is_asked_for_with_and_without_speculation(requests: int) -> None:
    cases = make_cases(1)
    jobs = make_jobs(1, cases, requests)
    assert {job.case.number for job in jobs} == {case.number for case in cases}
    assert {None, 0, 4} <= {job.draft_tokens for job in jobs}
