"""``make audit`` ends well only when every version was audited and nothing is known against it."""

import json
from pathlib import Path
from typing import Any

import pytest

from deploy import audit

CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "X-1", "fix_versions": ["3"]}, {"id": "X-2", "fix_versions": []}]}
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found"}


def _report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("packages", "code", "last"),
    [
        ([CLEAN], 0, "1 packages audited, 0 known vulnerabilities"),
        ([CLEAN, BAD], 1, "2 packages audited, 2 known vulnerabilities"),
        ([CLEAN, UNKNOWN], 2, "1 packages audited, 0 known vulnerabilities"),
        ([BAD, UNKNOWN], 1, "1 packages audited, 2 known vulnerabilities"),
        ([UNKNOWN, UNKNOWN], 2, audit.NOT_REACHED),
        ([], 2, audit.NOT_REACHED),
    ],
)
def test_the_exit_code_says_what_is_known(packages: list[dict[str, Any]], code: int, last: str) -> None:
    found = audit.findings(_report(*packages))
    assert found.exit_code == code
    assert found.lines()[-1] == last


def test_what_is_vulnerable_is_named_with_what_fixes_it() -> None:
    assert audit.findings(_report(BAD)).lines()[:2] == ["b 2: X-1, fixed in 3", "b 2: X-2, fixed in no version yet"]


def test_what_was_left_out_is_named() -> None:
    assert audit.findings(_report(CLEAN, UNKNOWN)).lines()[0].endswith("does not know them: c")


def _program(folder: Path, text: str) -> str:
    path = folder / "pip-audit"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_service_that_is_away_is_said_plainly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = _program(tmp_path, "echo trace >&2; echo ConnectionError: no route >&2; exit 1")
    assert audit.main(program, []) == 2
    said = capsys.readouterr().err
    assert audit.NOT_REACHED in said
    assert "ended with 1: ConnectionError: no route" in said


def test_arguments_and_constraints_reach_the_program(tmp_path: Path) -> None:
    program = _program(tmp_path, f"echo \"$@\" > {tmp_path}/seen; echo '{_report(CLEAN)}'")
    assert audit.main(program, ["-s", "osv"]) == 0
    seen = (tmp_path / "seen").read_text()
    assert "-r constraints.txt -s osv" in seen
