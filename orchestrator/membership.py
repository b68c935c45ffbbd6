"""Who is in the pools: addresses from the configuration, names that are looked up, and the registry.

What cannot be read now is what it was last: with the registry or the name service away, running sessions go on and new
ones use the last known pools. It does not know rounds or sessions.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from orchestrator.pools import Pools
from outrider.errors import OutriderError, Unavailable
from outrider.registry import Registry

log = logging.getLogger(__name__)
DNS = "dns:///"
EVERY_S = 0.5

Source = Callable[[], Awaitable[Sequence[str]]]


async def look_up(name: str) -> Sequence[str]:
    """Addresses behind ``dns:///host:port``: one per A or AAAA record. Raises Unavailable when there are none."""
    host, _, port = name.removeprefix(DNS).rpartition(":")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise Unavailable(f"{name} cannot be looked up: {error}") from None
    hosts = {str(entry[4][0]) for entry in found}
    return sorted(f"[{each}]:{port}" if ":" in each else f"{each}:{port}" for each in hosts)


@dataclass(slots=True)
class _Known:
    """A source, what it said last, and whether it is away."""

    name: str
    ask: Source
    addresses: tuple[str, ...] = ()
    away: bool = False

    async def refresh(self) -> None:
        try:
            self.addresses = tuple(await self.ask())
        except Exception as error:  # whatever is wrong with one source, the others count
            if not self.away:
                foreseen = isinstance(error, OutriderError)
                log.warning("%s: %s; the last known replicas stay in use", self.name, error, exc_info=not foreseen)
            self.away = True
            return
        if self.away:
            log.info("%s answers again", self.name)
        self.away = False


def _fixed(addresses: Sequence[str]) -> Source:
    async def ask() -> Sequence[str]:
        return addresses

    return ask


def _named(name: str) -> Source:
    async def ask() -> Sequence[str]:
        return await look_up(name)

    return ask


def _registered(registry: Registry, role: str) -> Source:
    async def ask() -> Sequence[str]:
        return [replica.address for replica in await registry.replicas(role)]

    return ask


def _sources(role: str, configured: Sequence[str], registry: Registry | None) -> list[_Known]:
    plain = [address for address in configured if not address.startswith(DNS)]
    sources = [_Known(f"{role} addresses", _fixed(plain))]
    sources += [_Known(address, _named(address)) for address in configured if address.startswith(DNS)]
    return sources + ([_Known(f"registry of {role}s", _registered(registry, role))] if registry else [])


class Membership:
    """Keeps the pools filled."""

    def __init__(
        self, pools: Pools, targets: Sequence[str], drafts: Sequence[str], registry: Registry | None = None
    ) -> None:
        self._pools = pools
        self._registry = registry
        self._targets = _sources("target", targets, registry)
        self._drafts = _sources("draft", drafts, registry)

    @property
    def named(self) -> tuple[str, str]:
        """Where targets and drafts are said to be now, in words."""
        pairs = ((source.addresses for source in sources) for sources in (self._targets, self._drafts))
        targets, drafts = (", ".join(chain.from_iterable(each)) or "none" for each in pairs)
        return targets, drafts

    async def refresh(self) -> None:
        """Ask every source once."""
        await asyncio.gather(*(source.refresh() for source in (*self._targets, *self._drafts)))
        await self._pools.set(
            [address for source in self._targets for address in source.addresses],
            [address for source in self._drafts for address in source.addresses],
        )

    async def follow(self) -> None:
        """Refresh for ever."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.refresh()
            except Exception:  # whatever is wrong with one replica, the others are found
                log.exception("the pools could not be refreshed, in a way nobody foresaw")

    async def close(self) -> None:
        """Close the registry's connections."""
        if self._registry is not None:
            await self._registry.close()
