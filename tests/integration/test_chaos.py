"""A tenth of the chaos suite: every kind of fault, and nothing wrong, lost, doubled, hung or leaked."""

import os
import sys
from pathlib import Path

import pytest

from tests.chaos.campaign import campaign
from tests.chaos.report import details, passed, result
from tests.chaos.schedule import Kind

REQUESTS, FAULTS, SEED = 100, 20, 1


@pytest.mark.timeout(600)
async def test_no_fault_costs_a_token(tmp_path: Path) -> None:
    def say(line: str) -> None:
        print(line, file=sys.stderr)

    findings = await campaign(SEED, REQUESTS, FAULTS, tmp_path, say)
    numbers = result(findings)
    assert passed(findings), os.linesep.join(details(findings, SEED))
    assert (numbers["requests"], numbers["faults"]) == (REQUESTS, FAULTS)
    assert {happened.planned.kind for happened in findings.faults} == set(Kind)
