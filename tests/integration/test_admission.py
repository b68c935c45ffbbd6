"""Whose call it is and whether there is a place for it, over a real socket."""

import asyncio
from pathlib import Path

import grpc
import pytest

from tests.stack import Farm, Stack, make_request, own_stack
from tests.waiting import eventually

FILE = """
[limits]
max_answers = 2
[tenants.acme]
keys = ["one", "two"]
[tenants.umbrella]
keys = ["three"]
tokens_per_s = 1
burst_tokens = 20
"""


def bearer(key: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key}"),)


async def code(stack: Stack, key: str | None, tenant: str = "") -> grpc.StatusCode:
    """What a short answer ends with."""
    call = stack.stub.Generate(
        make_request([5], 0, max_new_tokens=2, tenant=tenant), timeout=20, metadata=bearer(key) if key else None
    )
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.fixture
def tenants(tmp_path: Path) -> str:
    path = tmp_path / "tenants.toml"
    path.write_text(FILE)
    return str(path)


async def test_a_key_says_whose_a_call_is(farm: Farm, llama: Path, tenants: str) -> None:
    async with own_stack(await farm.replica("target", llama), tenants=tenants) as stack:
        assert [await code(stack, key) for key in ("one", "two", "three")] == [grpc.StatusCode.OK] * 3
        assert await code(stack, "one", "acme") is grpc.StatusCode.OK
        assert [await code(stack, key) for key in (None, "four", "")] == [grpc.StatusCode.UNAUTHENTICATED] * 3
        assert await code(stack, "one", "umbrella") is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_tenant_that_has_used_up_its_tokens_is_refused_and_told_for_how_long(
    farm: Farm, llama: Path, tenants: str
) -> None:
    """Its running answer goes on to the end."""
    async with own_stack(await farm.replica("target", llama), tenants=tenants) as stack:
        call = stack.stub.Generate(make_request([5], 0, max_new_tokens=40), timeout=20, metadata=bearer("three"))
        ids = [token async for event in call for token in event.delta.token_ids]
        assert len(ids) == 40
        assert await code(stack, "three") is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await code(stack, "one") is grpc.StatusCode.OK


async def test_one_request_of_a_tenant_is_not_held_up_by_a_hundred_of_another(farm: Farm, llama: Path) -> None:
    """Of two places both are the crowd's; the one gets the next that is free."""
    async with own_stack(await farm.replica("target", llama), max_answers=2) as stack:
        ended: list[str] = []

        async def ask(tenant: str) -> None:
            await stack.ask(make_request([5], 0, max_new_tokens=8, tenant=tenant))
            ended.append(tenant)

        crowd = [asyncio.create_task(ask("crowd")) for _ in range(100)]
        await eventually(lambda: len(ended) >= 4, "the crowd is being answered")
        assert (await stack.info()).waiting_requests > 50
        before = len(ended)
        await ask("one")
        assert len(ended) - before <= 6, "not after the crowd"
        await asyncio.gather(*crowd)
        assert (await stack.info()).waiting_requests == 0


async def test_a_request_that_finds_no_place_in_time_is_refused(farm: Farm, llama: Path) -> None:
    target = await farm.replica("target", llama)
    async with own_stack(target, max_answers=1, admission_s=0.05) as stack:
        call = stack.stub.Generate(make_request([5], 0, max_new_tokens=1500), timeout=20)
        await call.read()
        error = await stack.fails(make_request([5], 0))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        call.cancel()
        await eventually(lambda: not stack.service._door.inside, "the place is free")
        await stack.generate([5], 0)
