"""The whole topology on one machine without a cluster: ``make e2e-namespaces``, as root.

Every pod of tests/e2e/overlay is a process in a network namespace of its own, with the environment, files, probes and
ends of the manifests, behind packet filters made of their NetworkPolicies, with mutual TLS and API keys. Clients ask
without a pause while pools grow and shrink and every certificate is replaced; each answer is compared with the target's
own. Weights are the default pair's, from where ``make demo`` puts them.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from outrider.cli.console import print_result
from outrider.cli.models import prepare_default
from outrider.home import models_folder
from tests.deploy.manifests import ROOT, kustomize
from tests.e2e import network
from tests.e2e.cluster import Cluster
from tests.e2e.doors import Attempt, Visitors, attempts, knock
from tests.waiting import until

KEY = "a-key-for-the-test"
"""Its digest is in overlay/tenants.toml."""
_SERVED = "outrider_rounds_served_total"
_SOON_S = 300.0


@dataclass(slots=True)
class Seen:
    """What clients have told, line by line."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def failed(self) -> list[str]:
        return [answer["failed"] for answer in self.answers if "failed" in answer]

    @property
    def wrong(self) -> int:
        return sum(bool(answer.get("wrong")) for answer in self.answers)

    def total(self, name: str) -> int:
        return sum(answer.get(name, 0) for answer in self.answers)

    async def read(self, lines: asyncio.StreamReader) -> None:
        """Until the end."""
        async for line in lines:
            told = json.loads(line)
            if "ready" in told:
                self.ready.set()
            else:
                self.answers.append(told)

    async def reach(self, count: int) -> None:
        """Return when there are so many answers."""

        async def enough() -> bool:
            return len(self.answers) >= count

        await until(enough, f"{count} answers", _SOON_S)


def say(words: str) -> None:
    """Progress, for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


@contextlib.asynccontextmanager
async def asking(cluster: Cluster, visitors: Visitors) -> AsyncIterator[Seen]:
    """Clients that ask until the end of the block. At its end each has its last answer."""
    seen = Seen()
    addresses = ",".join(f"{pod.spot.ip}:50051" for pod in cluster.running["orchestrator"])
    words = ("--addresses", addresses, "--tls", str(cluster.folder / "client"), "--key", KEY)
    process = await asyncio.create_subprocess_exec(
        *visitors.clients.words(sys.executable, "-m", "tests.e2e.asking", *words),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    reading = asyncio.create_task(seen.read(process.stdout))
    try:
        await asyncio.wait({asyncio.create_task(seen.ready.wait()), reading}, return_when=asyncio.FIRST_COMPLETED)
        assert seen.ready.is_set(), "the clients have ended"
        yield seen
    finally:
        if process.returncode is None:
            process.terminate()
        await reading
        await process.wait()


async def serves(cluster: Cluster, visitors: Visitors, component: str) -> None:
    """Return when the youngest pod has answered rounds, as Prometheus sees it."""
    pod = cluster.running[component][-1]

    async def some() -> bool:
        value = await knock(visitors.prometheus, f"{pod.spot.ip}:9464", "--metric", _SERVED)
        return value not in ("", "CLOSED") and float(value) > 0

    await until(partial(some), f"{pod.spot.name} serves rounds", _SOON_S)
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


def _traces(cluster: Cluster) -> int:
    """Lines that the collector has written."""
    file = cluster.running["collector"][0].root / "traces.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


async def run(requests: int) -> bool:
    """Returns whether everything was right."""
    models = models_folder(os.environ)
    prepare_default(os.environ)
    objects = tuple(yaml.safe_load_all(kustomize(Path(__file__).parent / "overlay")))
    cluster = Cluster(objects, models)
    cluster.open()
    try:
        say("starting the pods")
        await cluster.start()
        visitors = Visitors(
            cluster.visitor("clients", "apps", outrider_clients="true"),
            cluster.visitor("prometheus", "monitoring", outrider_metrics="true"),
            cluster.visitor("stranger", "elsewhere"),
        )
        figures = await through(cluster, visitors, requests)
        figures["traces"] = _traces(cluster)
    except BaseException:
        for pod in [pod for there in cluster.running.values() for pod in there]:
            print(f"--- {pod.spot.name}\n{pod.said[-3000:]}", file=sys.stderr)
        raise
    finally:
        say("ending the pods")
        await cluster.close()
    figures["bad_exits"] = sum(code != 0 for code in cluster.codes)
    print_result(figures)
    return figures["mtls"] and not (figures["failed"] or figures["wrong"] or figures["bad_exits"])


def main() -> int:
    """Returns the exit code: 2 where this machine cannot."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=__doc__)
    parser.add_argument("--requests", type=int, default=120, help="at least so many answers")
    told = parser.parse_args()
    lacking = network.missing()
    if lacking:
        print(lacking, file=sys.stderr)
        return 2
    return 0 if asyncio.run(run(told.requests)) else 1


if __name__ == "__main__":
    sys.exit(main())
