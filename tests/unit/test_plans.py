"""The values between the loop and its controller: what a plan is called, and what a round cost."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.plans import Drafter, Observation, Plan, Situation

SECONDS = st.floats(0.0, 100.0)


def test_a_plan_says_nothing_is_drafted_until_told_otherwise() -> None:
    plan = Plan()
    assert plan.kind == (Drafter.NONE, False)
    assert (plan.draft_tokens, plan.run, plan.probe) == (0, 0, False)


@pytest.mark.parametrize("look_ahead", [False, True])
@pytest.mark.parametrize("drafter", list(Drafter))
def test_a_kind_is_who_drafts_and_whether_it_looks_ahead(drafter: Drafter, look_ahead: bool) -> None:
    assert Plan(drafter, 4, look_ahead).kind == Plan(drafter, 8, look_ahead, probe=True).kind == (drafter, look_ahead)


@given(SECONDS, SECONDS, st.floats(0.001, 100.0))
def test_a_round_took_the_time_between_verdicts_where_there_were_two(
    propose: float, verify: float, cycle: float
) -> None:
    first = Observation(plan=Plan(), proposed=0, accepted=0, emitted=1, propose_s=propose, verify_s=verify)
    assert first.took_s == propose + verify
    assert dataclasses.replace(first, cycle_s=cycle).took_s == cycle


@pytest.mark.parametrize("value", [Plan(), Situation(3)])
def test_values_do_not_change(value: Plan | Situation) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)
