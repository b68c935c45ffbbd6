"""transformers' ``generate`` in a process of its own, one request at a time, told over a pipe."""

import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import Child
from bench.systems.base import Request, Timing, complete

_WORKER = "bench.systems.transformers_worker"


@dataclass(frozen=True, slots=True)
class Transformers:
    """A running worker."""

    child: Child
    settings: str = "`generate` in one process, told over a pipe, its streamer takes the times"
    name: str = "transformers"
    most_sessions: int = 1

    @property
    def roots(self) -> list[int]:
        """The worker."""
        return [self.child.process.pid] if self.child.process is not None else []

    async def _exchange(self, message: dict[str, Any] | None) -> Any:
        """Send a line unless there is none to send, and read one."""
        process = self.child.process
        assert process is not None and process.stdin is not None and process.stdout is not None
        if message is not None:
            process.stdin.write(json.dumps(message).encode() + b"\n")
        line = await process.stdout.readline()
        if not line:
            await process.wait()
            raise self.child.failure("ended before its answer")
        return json.loads(line)

    async def wait_ready(self) -> None:
        """Return when the model is loaded. Raises BenchError when the worker ends first."""
        await self._exchange(None)

    async def answer(self, request: Request) -> Timing:
        """One ``generate``; a token counts when the streamer gets it."""
        sent = time.monotonic()
        told = await self._exchange({"ids": request.ids, "new_tokens": request.new_tokens})
        times = told["times"]
        return complete(self.name, request, Timing(sent, times[0], times[-1], len(times)))


@asynccontextmanager
async def transformers(model: str, logs: Path) -> AsyncGenerator[Transformers, None]:
    """The worker with its model loaded. Raises BenchError when that fails."""
    command = [sys.executable, "-m", _WORKER, model]
    system = Transformers(Child("transformers", command, logs / "transformers.log", os.environ, piped=True))
    try:
        await system.child.start()
        await system.wait_ready()
        yield system
    finally:
        await system.child.stop()
