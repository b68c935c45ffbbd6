"""The closing line and the exit code say what was found, and every failure says how to have it again."""

from dataclasses import replace

import pytest

from tests.chaos.campaign import Findings, Happened
from tests.chaos.report import details, passed, result
from tests.chaos.schedule import schedule
from tests.chaos.verdicts import Fate, Outcome

FINE = Outcome(0, 3, 0, None, Fate.ANSWERED, "", 1.0, 2.0)
FAULTS = tuple(Happened(planned, 10.0 * planned.number, 10.0 * planned.number + 5, 1) for planned in schedule(1, 3))
CLEAN = Findings(FAULTS, (FINE, replace(FINE, request=1, fate=Fate.REFUSED, detail="Unavailable: away")), {}, ())


def test_what_is_clean_passes_and_a_refusal_is_allowed() -> None:
    assert passed(CLEAN)
    assert result(CLEAN) == {
        "requests": 2,
        "faults": 3,
        "wrong": 0,
        "lost": 0,
        "doubled": 0,
        "hung": 0,
        "leaked": 0,
    }
    assert [line for line in details(CLEAN, 1) if "Unavailable: away" in line]


@pytest.mark.parametrize("fate", [Fate.WRONG, Fate.LOST, Fate.DOUBLED, Fate.HUNG])
def test_each_bad_fate_fails_and_is_told_with_the_faults_of_its_time(fate: Fate) -> None:
    bad = replace(FINE, request=7, fate=fate, detail="tokens differ at 4", began_s=11.0, ended_s=12.0)
    findings = replace(CLEAN, outcomes=(FINE, bad))
    assert not passed(findings)
    assert result(findings)[fate.value] == 1
    lines = details(findings, 5)
    assert "request 7 (case 3, turn 0, AUTO)" in lines[0]
    assert "tokens differ at 4" in lines[0]
    assert [str(FAULTS[1].planned) in line for line in lines[1:2]] == [True]
    assert not [line for line in lines if str(FAULTS[0].planned) in line]
    assert lines[-1] == "again: python -m tests.chaos --requests 2 --faults 3 --seed 5"


def test_what_is_left_over_and_what_would_not_stop_fail() -> None:
    leaking = replace(CLEAN, left={"sessions of target 0": 2})
    assert not passed(leaking)
    assert result(leaking)["leaked"] == 2
    assert "leaked: 2 sessions of target 0" in details(leaking, 1)
    stubborn = replace(CLEAN, bad_exits=("target 0 ended with 1 after SIGTERM",))
    assert not passed(stubborn)
    assert "bad exit: target 0 ended with 1 after SIGTERM" in details(stubborn, 1)
