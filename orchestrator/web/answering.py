"""One answer as server-sent events: what the service tells, and with it the spans that have ended since.

An answer is told by one task, so that a client that does not read holds it up, and is given up, as over gRPC; when the
client goes away the task is cancelled, and the answer with it. It does not know what an answer is about.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from starlette.types import Receive, Scope, Send

from orchestrator.looking import Looking
from orchestrator.recorder import RequestTrace
from orchestrator.web.failures import answer, told
from outrider.errors import OutriderError
from outrider.spans import LightSpan
from outrider.v1 import orchestrator_pb2 as pb

log = logging.getLogger(__name__)
_PING_S = 15.0
"""Between two signs of life while nothing is told; proxies give up on silent connections after 30 to 60 s."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
Find = Callable[[str], RequestTrace | None]


def as_dict(message: Message) -> dict[str, Any]:
    """A message as JSON has it here: fields by their names in the protocol, those left at 0 as well."""
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


class Spans:
    """The spans of one request that have ended and were not told yet."""

    def __init__(self, looking: Looking) -> None:
        self._looking = looking
        self._trace: RequestTrace | None = None
        self._told = 0

    def of(self, trace: RequestTrace | None) -> None:
        """Which request's; None for one that is not remembered."""
        self._trace = trace

    async def fresh(self) -> str | None:
        """As OTLP JSON; None where there is nothing new."""
        new: list[LightSpan] = self._trace.kept[self._told :] if self._trace is not None else []
        if not new:
            return None
        self._told += len(new)
        return await self._looking.otlp([each for span in new for each in span.whole()])


class Answering:
    """An ASGI application that tells one answer. Errors before the first event are whole answers with a status."""

    def __init__(self, events: AsyncGenerator[pb.GenerateResponse, None], spans: Spans, find: Find) -> None:
        self._events = events
        self._spans = spans
        self._find = find
        self._begun = self._sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell it, to its end or until the client has gone."""
        telling = asyncio.create_task(self._tell(scope, receive, send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await self._until({telling, gone}, send)
        finally:
            telling.cancel()
            gone.cancel()
            await asyncio.gather(telling, gone, return_exceptions=True)
        if not telling.cancelled():
            telling.result()

    async def _until(self, tasks: set[asyncio.Task[None]], send: Send) -> None:
        while not (await asyncio.wait(tasks, timeout=_PING_S, return_when=asyncio.FIRST_COMPLETED))[0]:
            if self._begun and not self._sending:
                await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})

    async def _tell(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with contextlib.aclosing(self._events) as events:
                async for event in events:
                    await self._event(event, send)
            await self._fresh(send)
        except Exception as error:
            if not isinstance(error, OutriderError):
                log.exception("an answer over HTTP failed")
            if not self._begun:
                await answer(error)(scope, receive, send)
                return
            await self._fresh(send)
            await self._send("error", json.dumps(told(error)), send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _event(self, event: pb.GenerateResponse, send: Send) -> None:
        name = event.WhichOneof("event") or ""
        if not self._begun:
            self._spans.of(self._find(event.started.session_id))
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            self._begun = True
        await self._send(name, json.dumps(as_dict(getattr(event, name))), send)
        await self._fresh(send)

    async def _fresh(self, send: Send) -> None:
        spans = await self._spans.fresh()
        if spans is not None:
            await self._send("spans", spans, send)

    async def _send(self, name: str, data: str, send: Send) -> None:
        self._sending = True
        await send(
            {"type": "http.response.body", "body": f"event: {name}\ndata: {data}\n\n".encode(), "more_body": True}
        )
        self._sending = False


async def _gone(receive: Receive) -> None:
    """Until the client has gone away, or the answer is over."""
    while (await receive())["type"] != "http.disconnect":
        pass
