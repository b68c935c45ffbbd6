"""What happens while clients ask: doors are tried, pools grow and shrink, every certificate is replaced."""

import sys
import time
from typing import Any

from tests.e2e.cluster import Cluster
from tests.e2e.doors import Attempt, Visitors, attempts, knock
from tests.e2e.seen import KEY, asking
from tests.waiting import until

_SERVED = "outrider_rounds_served_total"
_SOON_S = 300.0


def say(words: str) -> None:
    """Progress, for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


async def serves(cluster: Cluster, visitors: Visitors, component: str) -> None:
    """Return when the youngest pod has answered rounds, as Prometheus sees it."""
    pod = cluster.running[component][-1]

    async def some() -> bool:
        value = await knock(visitors.prometheus, f"{pod.spot.ip}:9464", "--metric", _SERVED)
        return value not in ("", "CLOSED") and float(value) > 0

    await until(some, f"{pod.spot.name} serves rounds", _SOON_S)
    say(f"{pod.spot.name} serves rounds")


async def knocked(cluster: Cluster, visitors: Visitors) -> list[Attempt]:
    """Every door is tried, one after another."""
    made = []
    for attempt in attempts(cluster, visitors, KEY):
        made.append(await attempt.made())
        say(str(made[-1]))
    return made


async def through(cluster: Cluster, visitors: Visitors, requests: int) -> dict[str, Any]:
    """All that happens. Returns the figures."""
    doors = await knocked(cluster, visitors)
    scaled = {"up": 0, "down": 0}
    async with asking(cluster, visitors) as seen:
        await seen.reach(requests // 6)
        for component in ("target", "draft"):
            say(f"one more {component} under load")
            await cluster.scale(component, 3)
            await serves(cluster, visitors, component)
            scaled["up"] += 1
        say("every certificate is replaced under load")
        cluster.renew_certificates()
        await seen.reach(len(seen.answers) + requests // 6)
        for component in ("target", "draft"):
            say(f"one {component} less under load")
            await cluster.scale(component, 2)
            scaled["down"] += 1
        await seen.reach(max(requests, len(seen.answers) + requests // 6))
        say("the same attempts with the new certificates")
        doors += await knocked(cluster, visitors)
    for failure in seen.failed:
        say(f"failed: {failure}")
    return {
        "requests": len(seen.answers),
        "failed": len(seen.failed),
        "wrong": seen.wrong,
        "proposed": seen.total("proposed"),
        "scaled_up": scaled["up"],
        "scaled_down": scaled["down"],
        "doors": len(doors),
        "doors_wrong": sum(not door.right for door in doors),
        "mtls": all(door.right for door in doors),
    }
