"""Processes of a benchmark: starting one, halting a whole tree while others are measured, and its peak memory.

It knows signals and /proc; it does not know what the processes do.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LOG_TAIL_LINES = 25
_STOP_S = 30.0


class BenchError(RuntimeError):
    """A system did not come up, ended by itself or answered wrongly. The message says which and why."""


def peak_memory_mib(pid: int) -> int:
    """Largest resident size of a process so far, MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


def process_name(pid: int) -> str:
    """The kernel's short name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _parents() -> dict[int, int]:
    """Parent of every process of the machine."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def below(roots: Sequence[int], parents: Mapping[int, int]) -> list[int]:
    """These processes and everything below them, parents before children."""
    found = [pid for pid in roots if pid in parents]
    for pid in found:  # grows while it is walked
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found


def tree(roots: Sequence[int]) -> list[int]:
    """``below`` of this moment."""
    return below(roots, _parents())


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def halt(roots: Sequence[int]) -> None:
    """Take these processes and everything below them off the cores; their memory stays."""
    _send(tree(roots), signal.SIGSTOP)


def resume(roots: Sequence[int]) -> None:
    """Undo ``halt``."""
    _send(tree(roots), signal.SIGCONT)


@contextlib.contextmanager
def awake(roots: Sequence[int]) -> Iterator[None]:
    """Let halted processes run inside a block."""
    resume(roots)
    try:
        yield
    finally:
        halt(roots)


@dataclass(slots=True)
class Child:
    """One process with a log of its own, in a session of its own. ``piped`` gives it our stdin and stdout."""

    name: str
    command: Sequence[str | Path]
    log: Path
    environment: Mapping[str, str]
    piped: bool = False
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> asyncio.subprocess.Process:
        """Start it."""
        pipe = asyncio.subprocess.PIPE if self.piped else None
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command,
                env=dict(self.environment),  # uvloop takes nothing else
                stdin=pipe or asyncio.subprocess.DEVNULL,
                stdout=pipe or log,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def failure(self, what: str) -> BenchError:
        """An error that ends with the log's last lines."""
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return BenchError(f"{self.name} {what}; the end of its log:\n" + "\n".join(lines))

    def check_alive(self) -> None:
        """Raise BenchError when it has ended."""
        if self.process is not None and self.process.returncode is not None:
            raise self.failure(f"ended with code {self.process.returncode}")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for whatever of its tree is left after that."""
        if self.process is None:
            return
        everything = tree([self.process.pid])
        _send(everything, signal.SIGCONT)
        if self.process.returncode is None:
            self.process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), _STOP_S)
        _send(everything, signal.SIGKILL)
        await self.process.wait()
