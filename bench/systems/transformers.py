"""transformers' ``generate`` in a process of its own, one request at a time, told over a pipe."""

import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.processes import Child
from bench.systems.base import Request, Step, Timing, complete, timed

_WORKER = "bench.systems.transformers_worker"
PLAIN, ASSISTED, LOOKUP = "plain", "assisted", "lookup"
"""Ways to generate: alone, with a draft model, with copies from the text."""


@dataclass(frozen=True, slots=True)
class Transformers:
    """A running worker, asked to generate in one way."""

    child: Child
    settings: str = "`generate` in one process, told over a pipe, its streamer takes the times"
    name: str = "transformers"
    most_sessions: int = 1
    mode: str = PLAIN

    @property
    def roots(self) -> list[int]:
        """The worker."""
        return [self.child.process.pid] if self.child.process is not None else []

    def speculating(self, mode: str) -> "Transformers":
        """The same worker, asked another way."""
        return replace(self, name=f"{self.name} {mode}", mode=mode)

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
        asked = {
            "ids": request.ids,
            "new_tokens": request.new_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            "mode": self.mode,
        }
        told = await self._exchange(asked)
        return complete(self.name, request, timed(sent, [Step(at, tuple(ids)) for at, ids in told["steps"]]))


@asynccontextmanager
async def transformers(model: str, logs: Path, assistant: str | None = None) -> AsyncGenerator[Transformers, None]:
    """The worker with its models loaded. Raises BenchError when that fails."""
    command = [sys.executable, "-m", _WORKER, model, *([assistant] if assistant else [])]
    system = Transformers(Child("transformers", command, logs / "transformers.log", os.environ, piped=True))
    try:
        await system.child.start()
        await system.wait_ready()
        yield system
    finally:
        await system.child.stop()
