"""How commands reach orchestrators: a client of the library, and what to do where nobody listens."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from outrider.client import Client, TlsPaths
from outrider.config import ConfigError
from outrider.errors import InvalidArgument, Unavailable
from outrider.v1.orchestrator_pb2 import GetInfoResponse

_PATIENCE_S = 10.0
"""Somebody sits and waits."""


_TLS = "OUTRIDER_TLS_"


def _tls(environment: Mapping[str, str]) -> TlsPaths | None:
    """Raises InvalidArgument for settings that lack others."""
    ca, cert, key, name = (environment.get(_TLS + name, "") for name in ("CA", "CERT", "KEY", "NAME"))
    for setting, given, needed, needs in (
        ("CERT", cert, "KEY", key),
        ("KEY", key, "CERT", cert),
        ("CERT", cert, "CA", ca),
        ("NAME", name, "CA", ca),
    ):
        if given and not needs:
            raise InvalidArgument(_TLS + setting, f"needs {_TLS}{needed} as well")
    return TlsPaths(ca, cert, key) if ca else None


@asynccontextmanager
async def connect(
    addresses: str, api_key: str = "", environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Client, None]:
    """A client of the orchestrators at addresses separated by commas, with TLS where the ``environment`` names
    certificates. Raises InvalidArgument."""
    each = [address.strip() for address in addresses.split(",")]
    found = environment or {}
    try:
        tls, name = _tls(found), found.get("OUTRIDER_TLS_NAME", "")
        client = Client(*each, api_key=api_key, timeout_s=None, patience_s=_PATIENCE_S, tls=tls, tls_name=name)
    except ConfigError as error:
        setting, _, words = str(error).partition(": ")  # the files' own errors name the setting first
        raise InvalidArgument(setting, words) from None
    async with client:
        yield client


async def look(client: Client) -> GetInfoResponse:
    """What an orchestrator says of itself. Raises OutriderError at once where none answers."""
    try:
        return await client.info()
    except Unavailable as error:
        if "no orchestrator" not in error.message:
            raise
        raise Unavailable(f"no orchestrator at {client.addresses}; start one with `outrider up`") from None
