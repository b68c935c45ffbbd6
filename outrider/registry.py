"""Who serves where, in Redis: each replica keeps one key alive, and whoever wants to know reads them all.

Names, for the default prefix ``outrider``:

- ``outrider:replica:<role>:<address>``: an Announcement as JSON. It expires as a whole after the lease.
- ``outrider:replicas:<role>``: the set of addresses that were announced. An index only: an address without its key is
  taken out by whoever reads it, and put in again by the next announcement.

Nothing here is in the path of a round. It does not know pools, sessions or gRPC.
"""

import dataclasses
import json
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outrider.redis_calls import answered, open_redis

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a replica says of itself: its role (draft or target), where it serves, which process it is, its model, and
    the size of its KV cache in tokens."""

    role: str
    address: str
    incarnation: int
    model_id: str
    kv_capacity_tokens: int


def parse_announcement(text: str) -> Announcement:
    """An announcement from its JSON. Raises ValueError for anything else."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("brackets in brackets without end") from None
    kinds = {field.name: field.type for field in dataclasses.fields(Announcement)}
    if not isinstance(found, dict) or {name: type(value) for name, value in found.items()} != kinds:
        raise ValueError("not an announcement")
    return Announcement(**found)


class Registry:
    """A client of the registry. Every method raises Unavailable when Redis does not answer (``redis_calls.py``)."""

    def __init__(self, url: str, prefix: str = "outrider") -> None:
        """Raises ValueError for a URL that is none of Redis. It connects when it is first used."""
        self._prefix = prefix
        self._nonsense: set[tuple[str, str]] = set()
        self._redis = open_redis(url, text=True)

    def _key(self, role: str, address: str) -> str:
        return f"{self._prefix}:replica:{role}:{address}"

    def _index(self, role: str) -> str:
        return f"{self._prefix}:replicas:{role}"

    async def announce(self, replica: Announcement, lease_s: float) -> None:
        """Say that a replica serves, for the length of a lease."""
        text = json.dumps(dataclasses.asdict(replica))
        pipe = self._redis.pipeline(transaction=True)
        pipe.set(self._key(replica.role, replica.address), text, px=int(lease_s * 1000))
        pipe.sadd(self._index(replica.role), replica.address)
        await self._asked(pipe.execute())

    async def withdraw(self, role: str, address: str) -> None:
        """Say that a replica takes no more sessions."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.delete(self._key(role, address))
        pipe.srem(self._index(role), address)
        await self._asked(pipe.execute())

    async def replicas(self, role: str) -> tuple[Announcement, ...]:
        """All that are announced now, by address. What is no announcement is left out, and logged."""
        addresses = sorted(await self._asked(self._redis.smembers(self._index(role))))
        self._nonsense &= {
            (other, address) for other, address in self._nonsense if other != role or address in addresses
        }
        if not addresses:
            return ()
        texts = await self._asked(self._redis.mget([self._key(role, address) for address in addresses]))
        await self._forget(role, [address for address, text in zip(addresses, texts, strict=True) if text is None])
        found = [self._read(role, address, text) for address, text in zip(addresses, texts, strict=True) if text]
        return tuple(replica for replica in found if replica is not None)

    async def _forget(self, role: str, expired: Sequence[str]) -> None:
        if expired:
            await self._asked(self._redis.srem(self._index(role), *expired))

    def _read(self, role: str, address: str, text: str) -> Announcement | None:
        """None for what is no announcement; it is logged when it appears."""
        try:
            replica = parse_announcement(text)
        except ValueError as error:
            if (role, address) not in self._nonsense:
                log.warning("the registry has nonsense for the %s at %s: %s", role, address, error)
            self._nonsense.add((role, address))
            return None
        self._nonsense.discard((role, address))
        return replica if (replica.role, replica.address) == (role, address) else None

    @staticmethod
    async def _asked(answer: Awaitable[Any]) -> Any:
        return await answered(answer, "registry")

    async def close(self) -> None:
        """Close the connections."""
        await cast(Any, self._redis).aclose()
