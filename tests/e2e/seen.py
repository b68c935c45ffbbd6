"""Clients that ask without a pause, in a process and a namespace of their own, and what they have told.

It does not know what else goes on.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.deploy.manifests import ROOT
from tests.e2e.cluster import Cluster
from tests.e2e.doors import Visitors
from tests.waiting import until

KEY = "a-key-for-the-test"
"""Its digest is in overlay/tenants.toml."""
_SOON_S = 300.0


@dataclass(slots=True)
class Seen:
    """What clients have told, line by line."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def failed(self) -> list[str]:
        return [answer["failed"] for answer in self.answers if "failed" in answer]

    @property
    def wrong(self) -> int:
        return sum(bool(answer.get("wrong")) for answer in self.answers)

    def total(self, name: str) -> int:
        return sum(answer.get(name, 0) for answer in self.answers)

    async def read(self, lines: asyncio.StreamReader) -> None:
        """Until the end."""
        async for line in lines:
            told = json.loads(line)
            if "ready" in told:
                self.ready.set()
            else:
                self.answers.append(told)

    async def reach(self, count: int) -> None:
        """Return when there are so many answers."""

        async def enough() -> bool:
            return len(self.answers) >= count

        await until(enough, f"{count} answers", _SOON_S)


@contextlib.asynccontextmanager
async def asking(cluster: Cluster, visitors: Visitors) -> AsyncIterator[Seen]:
    """Clients that ask until the end of the block. At its end each has its last answer."""
    seen = Seen()
    addresses = ",".join(f"{pod.spot.ip}:50051" for pod in cluster.running["orchestrator"])
    words = ("--addresses", addresses, "--tls", str(cluster.folder / "client"), "--key", KEY)
    process = await asyncio.create_subprocess_exec(
        *visitors.clients.words(sys.executable, "-m", "tests.e2e.asking", *words),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    reading = asyncio.create_task(seen.read(process.stdout))
    try:
        await asyncio.wait({asyncio.create_task(seen.ready.wait()), reading}, return_when=asyncio.FIRST_COMPLETED)
        assert seen.ready.is_set(), "the clients have ended"
        yield seen
    finally:
        if process.returncode is None:
            process.terminate()
        await reading
        await process.wait()
