"""One process of a stack: start it, wait until it serves, stop it. It does not know what it does."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrider.cli.ports import is_serving

_POLL_S = 0.2
_STOP_S = 30.0
_LOG_TAIL = 15


class StackError(RuntimeError):
    """A service did not come up, or ended by itself. The message holds the end of its log."""


@dataclass(slots=True)
class Service:
    """One process and where it listens."""

    name: str
    module: str
    address: str
    log: Path
    variables: dict[str, str]
    defaults: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    process: asyncio.subprocess.Process | None = None

    def log_tail(self) -> str:
        """The last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.is_file() else []
        return "\n".join(lines[-_LOG_TAIL:])

    async def start(self, environment: Mapping[str, str]) -> None:
        """Start the process in a session of its own, so that a Ctrl-C reaches it through us, in order."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                self.module,
                *self.arguments,
                env={**self.defaults, **environment, **self.variables},
                stdout=log,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End the process at once, if it still runs."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    def check_alive(self) -> None:
        """Raise StackError when the process has ended."""
        if self.process is not None and self.process.returncode is not None:
            code = self.process.returncode
            raise StackError(f"the {self.name} ended with code {code}; the end of {self.log}:\n{self.log_tail()}")

    async def wait_ready(self) -> None:
        """Return when it serves. Raises StackError when it ends first."""
        while not await is_serving(self.address):
            self.check_alive()
            await asyncio.sleep(_POLL_S)

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL when it does not drain in time."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
