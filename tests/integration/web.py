"""The live page of a stack on a free port, and plain HTTP requests to it."""

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.tenants import Tenants
from orchestrator.web.app import application
from orchestrator.web.server import WebServer
from tests.stack import Stack


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Of server-sent events: name and data."""
        parts = [part for part in self.body.split("\n\n") if part.startswith("event: ")]
        return [(name[len("event: ") :], json.loads(data[len("data: ") :])) for name, data in map(_two, parts)]


def _two(part: str) -> tuple[str, str]:
    name, data = part.split("\n")
    return name, data


@dataclass(frozen=True, slots=True)
class Page:
    """Where it is served."""

    base: str

    @property
    def url(self) -> str:
        return f"{self.base}/ui"

    async def get(self, path: str, **headers: str) -> Reply:
        return await asyncio.to_thread(self._ask, path, None, headers)

    async def post(self, path: str, body: Any, **headers: str) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await asyncio.to_thread(self._ask, path, data, {"Content-Type": "application/json"} | headers)

    def _ask(self, path: str, data: bytes | None, headers: dict[str, str]) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.base + path, data, named)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return Reply(reply.status, dict(reply.headers.items()), reply.read().decode())
        except urllib.error.HTTPError as error:
            return Reply(error.code, dict(error.headers.items()), error.read().decode())


@contextlib.asynccontextmanager
async def page_of(stack: Stack, tenants: Tenants | None = None) -> AsyncIterator[Page]:
    """The page of a stack while the block runs."""
    server = WebServer(application(stack.service, tenants or Tenants.none(), local=True), "127.0.0.1", 0)
    await server.start()
    try:
        yield Page(f"http://127.0.0.1:{server.port}")
    finally:
        await server.stop()
