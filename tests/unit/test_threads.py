"""Threads follow the cgroup's quota and the affinity mask, not the node's cores."""

import os
from pathlib import Path

import pytest

from outrider.inference import threads


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


@pytest.fixture(autouse=True)
def no_cgroup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(threads, "_CGROUP_V2", tmp_path / "cpu.max")
    monkeypatch.setattr(threads, "_CGROUP_V1", tmp_path / "cpu")


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("250000 100000", 2),
        ("50000 100000", 1),
        ("9900000 100000", 8),
        ("?", 8),
    ],
)
def test_the_quota_of_cgroup_v2_is_rounded_down_to_at_least_one(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert threads.available_threads() == count


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize(("quota", "count"), [("-1", 8), ("300000", 3), ("0", 8)])
def test_the_quota_of_cgroup_v1(tmp_path: Path, quota: str, count: int) -> None:
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "cpu.cfs_quota_us").write_text(quota)
    (folder / "cpu.cfs_period_us").write_text("100000")
    assert threads.available_threads() == count


@pytest.mark.usefixtures("cores")
def test_without_a_cgroup_the_affinity_mask_counts() -> None:
    assert threads.available_threads() == 8
