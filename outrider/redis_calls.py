"""A connection to Redis, and what can go wrong with it as one error of ours. It does not know what is asked.

Each question waits for TIMEOUT_S at most and is not asked again: whoever asks does so anyway, or goes on without.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from outrider.config import ConfigError
from outrider.errors import Unavailable

TIMEOUT_S = 1.0
_LONGEST_S = 4 * TIMEOUT_S
"""Of a question with all its steps (connect, greet, send, read), each of which the client bounds by itself: whatever a
step does that has no bound, whoever asks again and again must not wait for ever."""
_TROUBLE = (RedisError, OSError, TimeoutError, UnicodeDecodeError, RuntimeError)
"""RuntimeError is what uvloop says of a connection that was reset before it was used again."""


def check_url(setting: str, url: str) -> None:
    """Raises ConfigError, which names the setting and, since a URL can hold a password, nothing of the value."""
    try:
        parse_url(url)
    except ValueError:
        raise ConfigError(f"{setting}: must be redis://host:port/number, rediss:// or unix://") from None


def open_redis(url: str, text: bool) -> Any:
    """A client that connects when it is first used; ``text``: its answers are str. Raises ValueError for a URL that is
    none of Redis."""
    return Redis.from_url(
        url,
        decode_responses=text,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


async def answered(answer: Awaitable[Any], who: str) -> Any:
    """The answer. Raises Unavailable, in the name of ``who``.

    Whoever is cancelled in the very moment in which the answer comes is cancelled: up to Python 3.11 the ``wait_for``
    in the client keeps that to itself, and a task that asks again and again would never end.
    """
    try:
        async with asyncio.timeout(_LONGEST_S):
            found = await answer
    except _TROUBLE as error:
        _pass_on_cancellation()
        raise Unavailable(f"the {who} does not answer: {str(error) or type(error).__name__}", 1.0) from None
    _pass_on_cancellation()
    return found


def _pass_on_cancellation() -> None:
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
