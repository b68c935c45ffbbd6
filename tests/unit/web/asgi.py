"""An ASGI application asked without a socket: what it sends, and a client that reads, stalls or goes away."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(slots=True)
class Client:
    """One request and what came back. ``reads`` is cleared to stop reading; ``gone`` is set to go away;
    ``stalls`` while something waits to be read."""

    path: str = "/"
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: Iterable[bytes] = (b"",)
    sent: list[Message] = field(default_factory=list)
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    stalls: bool = False

    def __post_init__(self) -> None:
        self.reads.set()

    async def ask(self, app: ASGIApp) -> "Client":
        """Until the application returns."""
        parts = list(self.body)
        coming = iter([(part, place + 1 < len(parts)) for place, part in enumerate(parts)])
        await app(self._scope(), lambda: self._receive(coming), self._send)
        return self

    def _scope(self) -> dict[str, Any]:
        path, _, query = self.path.partition("?")
        headers = {"host": "localhost"} | self.headers
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }

    async def _receive(self, coming: Any) -> Message:
        for part, more in coming:
            return {"type": "http.request", "body": part, "more_body": more}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.stalls = not self.reads.is_set()
        await self.reads.wait()
        self.stalls = False
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def got(self) -> dict[str, str]:
        """Headers of the answer."""
        return {name.decode().lower(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent[1:]).decode()

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)["error"]
        return found

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Name and data of each event, signs of life left out."""
        parts = [part.split("\n") for part in self.text.split("\n\n") if part.startswith("event: ")]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]

    @property
    def complete(self) -> bool:
        """Whether the answer was told to be at its end."""
        return bool(self.sent) and not self.sent[-1].get("more_body", False)
