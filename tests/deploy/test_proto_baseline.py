"""``make proto-check`` compares the protocol with protos/released.yaml: what an older version cannot read fails it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELEASED = ROOT / "protos" / "released.yaml"
BUF = Path(sys.executable).parent / "buf"


def _breaking(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(BUF), "breaking", str(folder), "--against", str(RELEASED)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _changed(folder: Path, file: str, pattern: str, replacement: str) -> Path:
    """A copy of the protocol with one line changed."""
    shutil.copytree(ROOT / "protos", folder)
    path = folder / "outrider" / "v1" / file
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1
    path.write_text(text)
    return folder


def test_the_protocol_as_it_is_can_be_read_by_the_last_release() -> None:
    done = _breaking(ROOT / "protos")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        (r"^  uint32 prefix_len = 3;$", "", 'Previously present field "3" with name "prefix_len"'),
        (r"^  uint32 prefix_len = 3;$", "  string prefix_len = 3;", "changed type"),
        (r"^  uint32 prefix_len = 3;$", "  uint32 prefix_len = 99;", 'Previously present field "3"'),
        (r"^  rpc Release\(.*$", "", 'Previously present RPC "Release"'),
    ],
    ids=["removed", "other type", "other number", "method removed"],
)
def test_what_an_older_version_could_not_read_is_found(
    tmp_path: Path, pattern: str, replacement: str, complaint: str
) -> None:
    done = _breaking(_changed(tmp_path / "protos", "target.proto", pattern, replacement))
    assert done.returncode != 0
    assert complaint in done.stdout


def test_a_new_field_is_no_break(tmp_path: Path) -> None:
    line = r"^  uint32 prefix_len = 3;$"
    done = _breaking(
        _changed(tmp_path / "protos", "target.proto", line, "  uint32 prefix_len = 3;\n  bool fresh = 99;")
    )
    assert done.returncode == 0, done.stdout


def test_make_check_compares() -> None:
    assert "buf breaking protos --against protos/released.yaml" in (ROOT / "Makefile").read_text()
