"""A task that is told to end ends, whatever the libraries under it make of a cancellation."""

import asyncio
import logging

import pytest

from outrider.tasks import end


async def test_a_task_that_swallows_a_cancellation_ends() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed > 2:
                    raise

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(end(task), 5)
    assert task.cancelled()
    assert swallowed == 3


async def test_one_that_had_failed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("nobody foresaw this")

    task = asyncio.create_task(fail(), name="sweep")
    await asyncio.wait({task})
    with caplog.at_level(logging.ERROR):
        await end(task)
    assert "sweep had failed" in caplog.text
    assert "nobody foresaw this" in caplog.text


async def test_nothing_to_end_is_nothing_to_do() -> None:
    await end()
    await end(None)
