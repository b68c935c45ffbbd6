"""The registry on a real Redis: leases, nonsense, and life without it."""

import asyncio
import dataclasses
import json
import logging
from itertools import pairwise
from typing import Any

import pytest
from redis.asyncio.connection import Connection

from orchestrator.membership import Membership, look_up
from outrider.announcing import Announcer, advertised
from outrider.config import ConfigError
from outrider.errors import Unavailable
from outrider.registry import Announcement, Registry
from tests.redis_server import redis_server
from tests.waiting import eventually, until

ONE = Announcement("target", "a:1", 2**63 + 5, "model", 4096)
TWO = dataclasses.replace(ONE, address="b:1", incarnation=7)
LEASE_S = 0.6


class Pools:
    """Remembers the members that it was given."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self.drafts: list[str] = []

    async def set(self, targets: list[str], drafts: list[str]) -> None:
        self.targets, self.drafts = targets, drafts


async def test_what_is_announced_is_read_by_role_and_what_is_withdrawn_is_not() -> None:
    async with redis_server() as server:
        registry = Registry(server.url)
        await registry.announce(TWO, LEASE_S)
        await registry.announce(ONE, LEASE_S)
        assert await registry.replicas("target") == (ONE, TWO)
        assert await registry.replicas("draft") == ()
        await registry.withdraw("target", "a:1")
        assert await registry.replicas("target") == (TWO,)
        await registry.close()


async def test_a_replica_that_says_no_more_is_gone_after_its_lease_and_its_index_is_swept() -> None:
    async with redis_server() as server, server.client() as client:
        registry = Registry(server.url)
        await registry.announce(ONE, LEASE_S)
        lease_ms = await client.pttl("outrider:replica:target:a:1")
        assert 0 < lease_ms <= LEASE_S * 1000, "the key expires as a whole"
        await _announced(registry, ())
        assert await client.keys("*") == []
        await registry.close()


async def test_an_announcer_keeps_its_lease_and_survives_a_registry_that_forgets_everything() -> None:
    """The lease is renewed again and again, and at no time is the replica out of the list."""
    async with redis_server() as server, server.client() as client:
        announcer, registry = Announcer(Registry(server.url), ONE, LEASE_S), Registry(server.url)
        announcer.start()
        await _announced(registry, (ONE,))
        left_ms = [LEASE_S * 1000]

        async def renewed() -> bool:
            assert await registry.replicas("target") == (ONE,)
            left_ms.append(await client.pttl("outrider:replica:target:a:1"))
            return sum(later > earlier for earlier, later in pairwise(left_ms)) >= 4

        await until(renewed, "the lease is renewed four times")
        await client.flushall()
        await _announced(registry, (ONE,))
        await announcer.stop()
        assert await registry.replicas("target") == ()
        await registry.close()


async def _announced(registry: Registry, expected: tuple[Announcement, ...]) -> None:
    async def listed() -> bool:
        return await registry.replicas("target") == expected

    await until(listed, f"announced are {expected}")


WRONG_TYPE = json.dumps(dataclasses.asdict(ONE) | {"incarnation": "x"})
WRONG_ROLE = json.dumps(dataclasses.asdict(ONE) | {"role": "draft"})


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "null", '{"role": "target"}', WRONG_TYPE, WRONG_ROLE])
async def test_nonsense_in_the_registry_is_left_out(text: str) -> None:
    async with redis_server() as server, server.client() as client:
        registry = Registry(server.url)
        await registry.announce(TWO, LEASE_S)
        await client.sadd("outrider:replicas:target", "a:1")
        await client.set("outrider:replica:target:a:1", text)
        assert await registry.replicas("target") == (TWO,)
        await registry.close()


async def test_bytes_that_are_no_text_leave_the_other_sources_as_they_are() -> None:
    async with redis_server() as server, server.client() as client:
        pools: Any = Pools()
        registry = Registry(server.url)
        await registry.announce(ONE, 60.0)
        membership = Membership(pools, ["fixed:1"], [], registry)
        await membership.refresh()
        await client.sadd("outrider:replicas:target", b"\xff\xfe")
        await membership.refresh()
        assert pools.targets == ["fixed:1", "a:1"], "what was known last"
        await membership.close()


async def test_a_frozen_registry_is_asked_once_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would retry ten times: a start and a drain wait for one question only."""
    async with redis_server() as server:
        registry = Registry(server.url)
        await registry.announce(ONE, 60.0)
        asked: list[str] = []
        send = Connection.send_packed_command

        async def counted(self: Connection, *arguments: Any, **options: Any) -> None:
            asked.append("asked")
            await send(self, *arguments, **options)

        monkeypatch.setattr(Connection, "send_packed_command", counted)
        await server.freeze()
        with pytest.raises(Unavailable):
            await registry.withdraw("target", "a:1")
        assert len(asked) == 1
        server.thaw()
        await registry.close()


@pytest.mark.parametrize("how", ["frozen", "gone"])
async def test_with_the_registry_away_the_last_known_pools_stay(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """And it is said once, not twice a second."""
    async with redis_server() as server:
        pools: Any = Pools()
        registry = Registry(server.url)
        membership = Membership(pools, ["fixed:1"], [], registry)
        await registry.announce(ONE, 60.0)
        await membership.refresh()
        assert (pools.targets, pools.drafts) == (["fixed:1", "a:1"], [])
        if how == "frozen":
            await server.freeze()
        else:
            await server.stop()
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await membership.refresh()
        assert pools.targets == ["fixed:1", "a:1"]
        assert sum("registry of targets" in record.message for record in caplog.records) == 1
        with pytest.raises(Unavailable, match="registry does not answer"):
            await registry.announce(TWO, LEASE_S)
        if how == "frozen":
            server.thaw()
            await registry.announce(TWO, 60.0)
            await membership.refresh()
            assert pools.targets == ["fixed:1", "a:1", "b:1"]
        await membership.close()


async def test_a_name_is_every_address_behind_it() -> None:
    assert "127.0.0.1:50052" in await look_up("dns:///localhost:50052")
    for wrong in ("dns:///no-such-host.invalid:1", "dns:///localhost:port"):
        with pytest.raises(Unavailable, match="cannot be looked up"):
            await look_up(wrong)


def test_what_is_announced_can_be_reached_by_others() -> None:
    assert advertised("10.0.0.7:0", 5005, "") == "10.0.0.7:5005"
    assert advertised("0.0.0.0:5005", 5005, "pod-3.drafts:5005") == "pod-3.drafts:5005"
    for listen in ("0.0.0.0:5005", "[::]:5005"):
        with pytest.raises(ConfigError, match="OUTRIDER_ADVERTISE"):
            advertised(listen, 5005, "")


async def test_replicas_find_their_orchestrator_and_the_dead_lose_their_place() -> None:
    """The announcer's own life: withdrawn at the end, even when Redis went away in between."""
    async with redis_server() as server:
        announcer = Announcer(Registry(server.url), ONE, LEASE_S)
        announcer.start()
        registry = Registry(server.url)
        await _announced(registry, (ONE,))
        await server.freeze()
        stopping = asyncio.create_task(announcer.stop())
        await eventually(stopping.done, "it does not wait for Redis")
        server.thaw()
        await _announced(registry, ())
        await registry.close()
