"""Whether everything is back at its base when it is over. What is not within the bound has leaked."""

import contextlib
from collections.abc import Mapping

from outrider.errors import OutriderError
from tests.chaos.schedule import Place
from tests.chaos.system import KEPT_S, System
from tests.waiting import until

_WITHIN_S = 2 * KEPT_S + 20.0
"""Whatever is kept ages out in that time."""
_ANSWERS = "outrider:answer:*"


async def _orchestrator(system: System, place: Place) -> dict[str, int]:
    info = await system.info(place)
    if info is None:
        return {f"{place} does not answer": 1}
    counts = {
        "requests": info.active_requests,
        "waiting requests": info.waiting_requests,
        "kept sessions": info.sessions,
        "streams": sum(status.sessions for status in (*info.targets, *info.drafts)),
    }
    return {f"{what} of {place}": count for what, count in counts.items()}


async def _replica(system: System, place: Place) -> dict[str, int]:
    try:
        load = (await system.facts(place)).load
    except OutriderError:
        return {f"{place} does not answer": 1}
    counts = {"sessions": load.sessions, "rounds": load.pending_rounds, "tokens of KV": load.kv_used_tokens}
    return {f"{what} of {place}": count for what, count in counts.items()}


async def _journal(system: System) -> dict[str, int]:
    """Answers that are there for ever."""
    async with system.redis.server.client() as client:
        keys = await client.keys(_ANSWERS)
        lives = [await client.pttl(key) for key in keys]
    return {"answers in the journal that never expire": sum(life == -1 for life in lives)}


async def _left(system: System) -> dict[str, int]:
    """What is more than nothing."""
    counts = dict(await _journal(system))
    for place in system.boxes:
        counts |= await (_orchestrator if place.role == "orchestrator" else _replica)(system, place)
    return {what: count for what, count in counts.items() if count}


async def audit(system: System) -> Mapping[str, int]:
    """Wait until nothing is left, and say what is, if anything."""
    for role in ("target", "draft", "orchestrator"):
        await system.well(role)
    left: dict[str, int] = {}

    async def at_base() -> bool:
        nonlocal left
        left = await _left(system)
        return not left

    with contextlib.suppress(AssertionError):
        await until(at_base, "everything is at its base", _WITHIN_S)
    return left
