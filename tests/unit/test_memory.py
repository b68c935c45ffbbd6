"""What `auto` takes: a share of the smallest thing that is free, and never more than the model could use."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.inference.memory import FULL_SESSIONS, free_bytes, kv_bytes

GIB = 1 << 30


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def machine(root: Path, available: int) -> Path:
    write(root / "proc/meminfo", f"MemTotal: 99 kB\nMemAvailable:   {available // 1024} kB\n")
    return root


def limited(root: Path, folder: str, limit: str, usage: int, inactive: int = 0) -> None:
    """A cgroup of version 2."""
    write(root / "sys/fs/cgroup" / folder / "memory.max", f"{limit}\n")
    write(root / "sys/fs/cgroup" / folder / "memory.current", f"{usage}\n")
    write(root / "sys/fs/cgroup" / folder / "memory.stat", f"anon 5\ninactive_file {inactive}\n")


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 36))
def test_two_processes_fit_and_none_takes_more_than_its_model_can_use(free: int, full_session: int) -> None:
    """The second measures when the first may have taken nothing yet, or everything."""
    chosen = kv_bytes(free, full_session)
    assert 2 * chosen <= free
    assert chosen + kv_bytes(free - chosen, full_session) <= free
    assert chosen <= FULL_SESSIONS * full_session


def test_a_small_model_takes_what_it_can_use_and_a_large_one_its_share() -> None:
    assert kv_bytes(100 * GIB, GIB) == FULL_SESSIONS * GIB
    assert kv_bytes(10 * GIB, GIB) == 4 * GIB


def test_without_a_cgroup_the_machines_free_memory_counts(tmp_path: Path) -> None:
    assert free_bytes(machine(tmp_path, 8 * GIB)) == 8 * GIB


@pytest.mark.parametrize(
    ("limit", "usage", "inactive", "free"),
    [
        (str(4 * GIB), GIB, 0, 3 * GIB),
        (str(4 * GIB), 2 * GIB, GIB, 3 * GIB),
        (str(4 * GIB), 5 * GIB, 0, 0),
        ("max", 5 * GIB, 0, 8 * GIB),
        (str(100 * GIB), 0, 0, 8 * GIB),
    ],
)
def test_what_the_cgroup_leaves_counts_when_it_is_less(
    tmp_path: Path, limit: str, usage: int, inactive: int, free: int
) -> None:
    """Page cache that the kernel would drop is not used up."""
    machine(tmp_path, 8 * GIB)
    write(tmp_path / "proc/self/cgroup", "0::/pod/box\n")
    limited(tmp_path, "pod/box", limit, usage, inactive)
    assert free_bytes(tmp_path) == free


def test_a_cgroup_above_the_process_counts_too(tmp_path: Path) -> None:
    machine(tmp_path, 8 * GIB)
    write(tmp_path / "proc/self/cgroup", "0::/pod/box\n")
    limited(tmp_path, "pod/box", "max", GIB)
    limited(tmp_path, "pod", str(2 * GIB), GIB)
    assert free_bytes(tmp_path) == GIB


def test_version_1_is_read_too_and_its_huge_number_is_no_limit(tmp_path: Path) -> None:
    machine(tmp_path, 8 * GIB)
    write(tmp_path / "proc/self/cgroup", "5:cpu:/x\n4:memory:/x\n0::/\n")
    folder = tmp_path / "sys/fs/cgroup/memory"
    for place, limit in ((folder, (1 << 63) - 4096), (folder / "x", 3 * GIB)):
        write(place / "memory.limit_in_bytes", str(limit))
        write(place / "memory.usage_in_bytes", str(2 * GIB))
        write(place / "memory.stat", f"total_inactive_file {GIB // 2}\n")
    assert free_bytes(tmp_path) == 3 * GIB // 2


def test_this_machine_has_memory() -> None:
    assert free_bytes() > 0
