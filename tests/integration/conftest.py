"""One event loop and one farm of servers for all integration tests; each test must leave both as it found them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.stack import Farm

HERE = "tests/integration/"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """grpc.aio wants one event loop per process, so all integration tests share the session's."""
    for item in items:
        if item.nodeid.startswith(HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_farm() -> AsyncIterator[Farm]:
    """Servers that live until the end of the session."""
    farm = Farm()
    yield farm
    await farm.close()


@pytest_asyncio.fixture(loop_scope="session")
async def farm(shared_farm: Farm) -> AsyncIterator[Farm]:
    """The shared servers, checked for leaks after the test."""
    before = asyncio.all_tasks()
    yield shared_farm
    await shared_farm.check_base(before)
