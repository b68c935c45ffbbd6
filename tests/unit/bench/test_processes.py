"""Halting whole trees of processes, and stopping one that is halted."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from bench.processes import BenchError, Child, awake, below, halt, peak_memory_mib, process_name, resume, tree

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


GONE = "ZX"


def state(pid: int) -> str:
    """The kernel's letter: T is halted, Z and X are gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


async def becomes(pid: int, states: str) -> bool:
    """Whether it gets into one of these states soon: a signal takes a moment to reach another core."""
    for _ in range(500):
        if state(pid) in states:
            return True
        await asyncio.sleep(0.01)
    return False


def child(folder: Path, command: list[str], piped: bool = False) -> Child:
    return Child("some child", command, folder / "log", os.environ, piped)


def test_a_tree_is_everything_below_its_roots() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 21: 20}
    assert below([10], parents) == [10, 11, 12]
    assert below([20, 10], parents) == [20, 10, 21, 11, 12]
    assert below([99], parents) == [], "ended processes have no tree"


def test_this_process_has_a_name_and_took_memory() -> None:
    assert os.getpid() in tree([os.getppid()])
    assert process_name(os.getpid())
    assert peak_memory_mib(os.getpid()) > 1


async def test_a_halted_child_runs_only_while_it_is_awake_and_can_be_stopped(tmp_path: Path) -> None:
    one = child(tmp_path, SLEEP)
    pid = (await one.start()).pid
    try:
        halt([pid])
        assert await becomes(pid, "T")
        with awake([pid]):
            assert state(pid) != "T"
        assert await becomes(pid, "T")
        resume([pid])
        assert state(pid) != "T"
        halt([pid])
        assert await becomes(pid, "T")
    finally:
        await one.stop()
    assert one.process is not None
    assert one.process.returncode == -15, "it heard SIGTERM although it was halted"


async def test_what_a_child_started_is_stopped_with_it(tmp_path: Path) -> None:
    script = """if True:
        import subprocess, sys, time
        sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
        print(subprocess.Popen(sleep, stdout=subprocess.DEVNULL).pid, flush=True)
        time.sleep(60)"""
    one = child(tmp_path, [sys.executable, "-c", script], piped=True)
    process = await one.start()
    assert process.stdout is not None
    grandchild = int(await process.stdout.readline())
    assert tree([process.pid]) == [process.pid, grandchild]
    await one.stop()
    assert await becomes(grandchild, GONE)


async def test_a_child_that_ends_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    one = child(tmp_path, [sys.executable, "-c", "raise SystemExit('no such model')"])
    await (await one.start()).wait()
    with pytest.raises(BenchError, match=r"some child ended with code 1(.|\n)*no such model"):
        one.check_alive()
    await one.stop()
