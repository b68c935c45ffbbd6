"""What a call over HTTP is to the service: a message from a JSON body, and a context as gRPC has one.

It does not know what is answered.
"""

import asyncio
import re
from dataclasses import dataclass

from google.protobuf import json_format
from starlette.exceptions import HTTPException
from starlette.requests import Request

from outrider.errors import InvalidArgument
from outrider.v1 import orchestrator_pb2 as pb

MAX_BODY_BYTES = 1 << 20
"""Largest body of a request; about 250 000 tokens of text."""
_BODY_S = 30.0
_PASSED_ON = ("authorization", "traceparent")
_IN = re.compile(r"Failed to parse (\w+) field: ")
_UNKNOWN = re.compile(r'has no field named "([^"]*)"')
_AT = re.compile(r"\bat \"?GenerateRequest((?:\.\w+(?:\[\d+\])?)*)\"?")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What handlers ask of a gRPC context. A call over HTTP has no deadline; its client goes away instead."""

    metadata: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, request: Request) -> "CallContext":
        """With the headers that say whose call it is, and which trace it belongs to."""
        return cls(tuple((name, request.headers[name]) for name in _PASSED_ON if name in request.headers))

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Names and values."""
        return self.metadata

    def time_remaining(self) -> float | None:
        """None: for ever."""
        return None


def query(request: Request, *known: str) -> dict[str, str]:
    """The parameters of a request's URL. Raises InvalidArgument for one that the route does not know, or has twice."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in known or name in found:
            raise InvalidArgument(name, f"must be given once at most; known here: {', '.join(known) or 'none'}")
        found[name] = value
    return found


async def read_generate(request: Request) -> pb.GenerateRequest:
    """The request in a body. Raises InvalidArgument that names the field, and HTTPException for what is no JSON, comes
    too slowly or is too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body must be JSON, and content-type say application/json")
    try:
        async with asyncio.timeout(_BODY_S):
            body = await _body(request)
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {_BODY_S:g} s") from None
    return await asyncio.to_thread(parse, body)


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise HTTPException(413, f"the body must have at most {MAX_BODY_BYTES} bytes", {"Connection": "close"})
        parts.append(part)
    return b"".join(parts)


def parse(body: bytes) -> pb.GenerateRequest:
    """A message from its JSON form. Raises InvalidArgument that names the field."""
    if not body.lstrip().startswith(b"{"):
        raise InvalidArgument("request", "must be a JSON object")
    try:
        return json_format.Parse(body, pb.GenerateRequest())
    except UnicodeDecodeError:
        raise InvalidArgument("request", "must be JSON in UTF-8") from None
    except json_format.ParseError as error:
        raise _refused(str(error)) from None


def _refused(words: str) -> InvalidArgument:
    """The library's words, as one of our errors: the path of the field first, then what is wrong there."""
    words = words.partition("\n")[0]
    at, unknown = _AT.search(words), _UNKNOWN.search(words)
    path = max(at[1].split(".")[1:] if at else [], _IN.findall(words), key=len)
    wrong = _AT.sub("", _IN.sub("", words)).rstrip(" .")
    if unknown:
        path, wrong = [*path, unknown[1]], "is no field of this message"
    return InvalidArgument(".".join(path) or "request", wrong)
