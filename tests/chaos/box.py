"""One place of the system: a process that can be replaced, and the network before it.

Whatever process is there listens at the same address, and everybody else knows the address of the proxy before it.
"""

import asyncio
import contextlib
import signal
from dataclasses import dataclass, field
from pathlib import Path

from bench.proxy import Proxy
from tests.integration.processes import Service, serves, spawn

_ENDS_S = 30.0


@dataclass(slots=True)
class Box:
    """``bad_exits`` are codes of processes that were asked to stop and did not end well."""

    name: str
    module: str
    address: str
    proxy: Proxy
    variables: dict[str, str]
    logs: Path
    service: Service | None = None
    bad_exits: list[str] = field(default_factory=list)

    async def start(self, module: str = "", **others: str) -> None:
        """A new process; return when it serves."""
        own = {"OUTRIDER_LISTEN": self.address}
        with (self.logs / f"{self.name.replace(' ', '-')}.log").open("ab") as log:
            self.service = await spawn(module or self.module, self.variables | own | others, log)
        await serves(self.service)

    def signal(self, number: signal.Signals) -> None:
        """Tell the process, if it lives."""
        if self.service is not None and self.service.process.returncode is None:
            self.service.process.send_signal(number)

    async def kill(self) -> None:
        """No process any more."""
        self.signal(signal.SIGKILL)
        if self.service is not None:
            await self.service.process.wait()

    async def terminate(self) -> None:
        """Ask it to stop, and wait until it has."""
        assert self.service is not None
        self.signal(signal.SIGTERM)
        try:
            code = await asyncio.wait_for(self.service.process.wait(), _ENDS_S)
        except TimeoutError:
            self.bad_exits.append(f"{self.name} did not end within {_ENDS_S:g} s of SIGTERM")
            await self.kill()
            return
        if code != 0:
            self.bad_exits.append(f"{self.name} ended with {code} after SIGTERM")

    async def close(self) -> None:
        """Whatever state it is in."""
        with contextlib.suppress(ProcessLookupError):
            await self.kill()
