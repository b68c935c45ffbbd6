"""Whatever goes wrong with Redis is one error, which names who asked."""

import asyncio
import contextlib

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from outrider.config import ConfigError
from outrider.errors import Unavailable
from outrider.redis_calls import answered, check_url, open_redis


@pytest.mark.parametrize(
    "error",
    [
        RedisConnectionError("refused"),
        OSError("reset"),
        TimeoutError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed"),
    ],
)
async def test_trouble_is_unavailable(error: Exception) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(Unavailable, match=r"the journal does not answer: [\w']") as caught:
        await answered(fail(), "journal")
    assert caught.value.retry_after_s == 1.0


@pytest.mark.parametrize("error", [None, OSError("reset")])
async def test_a_cancellation_that_meets_the_answer_counts(error: Exception | None) -> None:
    """As ``asyncio.wait_for`` of Python 3.11 does when both happen in one turn of the loop."""

    async def answer() -> int:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if error is not None:
                raise error from None
        return 1

    async def ask_for_ever() -> None:
        while True:
            with contextlib.suppress(Unavailable):
                await answered(answer(), "registry")

    asking = asyncio.create_task(ask_for_ever())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, 5)


@pytest.mark.parametrize("url", ["http://user:secret@host", "redis://:secret/x@host:1", "secret"])
def test_a_wrong_url_is_refused_without_telling_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="OUTRIDER_JOURNAL: must be redis") as caught:
        check_url("OUTRIDER_JOURNAL", url)
    assert "secret" not in str(caught.value)
    check_url("OUTRIDER_JOURNAL", "redis://:secret@host:6379/0")


def test_a_url_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="scheme"):
        open_redis("http://host", text=True)
