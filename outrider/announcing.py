"""Keeps a replica announced while it serves. A registry that is away is tried again; nothing waits for it."""

import asyncio
import logging

from outrider.config import ConfigError
from outrider.errors import OutriderError
from outrider.registry import Announcement, Registry
from outrider.tasks import end

log = logging.getLogger(__name__)
_WILDCARDS = ("0.0.0.0", "[::]", "::", "")


def advertised(listen: str, port: int, advertise: str) -> str:
    """The address that others reach a server at. Raises ConfigError when only its operator can know it."""
    if advertise:
        return advertise
    host = listen.rpartition(":")[0]
    if host in _WILDCARDS:
        words = "must be set beside OUTRIDER_REGISTRY where OUTRIDER_LISTEN names no host that others can reach"
        raise ConfigError(f"OUTRIDER_ADVERTISE {words}, got {listen!r}")
    return f"{host}:{port}"


class Announcer:
    """Owner of one replica's lease."""

    def __init__(self, registry: Registry, replica: Announcement, lease_s: float) -> None:
        self._registry = registry
        self._replica = replica
        self._lease_s = lease_s
        self._away = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Announce it now and three times per lease from now on."""
        self._task = asyncio.create_task(self._keep(), name="announcer")

    async def _keep(self) -> None:
        while True:
            await self._announce()
            await asyncio.sleep(self._lease_s / 3)

    async def _announce(self) -> None:
        try:
            await self._registry.announce(self._replica, self._lease_s)
        except Exception as error:  # whatever is wrong with the registry, the replica serves
            if not self._away:
                words = "%s; sessions that know this replica go on, new orchestrators do not find it"
                log.warning(words, error, exc_info=not isinstance(error, OutriderError))
            self._away = True
            return
        if self._away:
            log.info("the registry is back")
        self._away = False

    async def stop(self) -> None:
        """Withdraw it: it takes no more sessions."""
        await end(self._task)
        try:
            await self._registry.withdraw(self._replica.role, self._replica.address)
        except Exception as error:  # as above, and the replica must end
            log.warning("%s; the lease runs out by itself", error)
        await self._registry.close()
