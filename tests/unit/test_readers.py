"""A client that does not read is given up after its time; one that reads, however slowly, is not."""

import asyncio

import pytest

from orchestrator.readers import Readers
from tests.unit.clock import Clock


async def test_only_a_call_whose_client_does_not_read_is_given_up(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    readers, read, ended = Readers(60.0), asyncio.Event(), []

    async def call(name: str, events: list[asyncio.Event]) -> None:
        try:
            for event in events:
                with readers.handing():
                    await event.wait()
            ended.append(f"{name} read all")
        except asyncio.CancelledError:
            ended.append(f"{name} was given up")

    first, last = asyncio.Event(), asyncio.Event()
    calls = [asyncio.create_task(call("slow", [first, last])), asyncio.create_task(call("stuck", [read]))]
    await asyncio.sleep(0)
    clock.now += 59.0
    readers.give_up()
    first.set()
    await asyncio.sleep(0)
    clock.now += 2.0
    readers.give_up()
    readers.give_up()
    await asyncio.sleep(0)
    assert ended == ["stuck was given up"]
    last.set()
    await asyncio.gather(*calls)
    assert ended == ["stuck was given up", "slow read all"]
    assert len(caplog.records) == 1
