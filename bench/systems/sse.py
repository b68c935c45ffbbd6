"""A bare HTTP client for a stream of server-sent events: the least that a client can cost the server's machine.

It knows HTTP/1.1 with chunked bodies; it does not know what the events say.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from bench.processes import BenchError

_END = "[DONE]"


async def _send(host: str, port: int, head: str, body: bytes = b"") -> tuple[asyncio.StreamReader, Any]:
    reader, writer = await asyncio.open_connection(host, port)
    lines = f"{head} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    if body:
        lines += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{lines}\r\n".encode() + body)
    return reader, writer


async def _status(reader: asyncio.StreamReader) -> int:
    """The status of a response, once its headers are read."""
    words = (await reader.readline()).split()
    while (await reader.readline()).strip():
        pass
    return int(words[1]) if len(words) > 1 else 0


async def healthy(host: str, port: int) -> bool:
    """Whether GET /health says 200."""
    try:
        reader, writer = await _send(host, port, "GET /health")
    except OSError:
        return False
    try:
        return await _status(reader) == 200
    except OSError:
        return False
    finally:
        writer.close()


async def _chunks(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    while size := int(await reader.readline(), 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def events(host: str, port: int, path: str, body: dict[str, Any]) -> AsyncGenerator[Any, None]:
    """The events that answer a POST, as values. Raises BenchError when the server refuses or breaks off."""
    reader, writer = await _send(host, port, f"POST {path}", json.dumps(body).encode())
    try:
        status = await _status(reader)
        if status != 200:
            raise BenchError(f"status {status}: {(await reader.read()).decode(errors='replace')}")
        waiting = b""
        async for chunk in _chunks(reader):
            *whole, waiting = (waiting + chunk).split(b"\n\n")
            for event in whole:
                text = event.decode().removeprefix("data: ")
                if text != _END:
                    yield json.loads(text)
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        raise BenchError(f"the stream broke off: {error!r}") from error
    finally:
        writer.close()
