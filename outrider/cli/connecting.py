"""How commands reach orchestrators: a client of the library, and what to do where nobody listens."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from outrider.client import Client
from outrider.errors import Unavailable
from outrider.v1.orchestrator_pb2 import GetInfoResponse

_PATIENCE_S = 10.0
"""Somebody sits and waits."""


@asynccontextmanager
async def connect(addresses: str, api_key: str = "") -> AsyncGenerator[Client, None]:
    """A client of the orchestrators at addresses separated by commas. Raises InvalidArgument."""
    each = [address.strip() for address in addresses.split(",")]
    async with Client(*each, api_key=api_key, timeout_s=None, patience_s=_PATIENCE_S) as client:
        yield client


async def look(client: Client) -> GetInfoResponse:
    """What an orchestrator says of itself. Raises OutriderError at once where none answers."""
    try:
        return await client.info()
    except Unavailable as error:
        if "no orchestrator" not in error.message:
            raise
        raise Unavailable(f"no orchestrator at {client.addresses}; start one with `outrider up`") from None
