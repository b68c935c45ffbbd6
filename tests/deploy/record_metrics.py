"""Records what Prometheus would see while a load comes and goes, for the replay of the autoscaling rules:

    python -m tests.deploy.record_metrics target 1 1       # case, number of targets, number of drafts; 6 minutes

writes tests/deploy/recorded/target-1-1.txt. Real processes with synthetic engines, whose passes take the longer the
more rows they have; the pools keep their size. It does not know the rules, nor what an autoscaler would do.
"""

import asyncio
import contextlib
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from outrider.client import Ask, Client
from tests.deploy.autoscaling_recorded import FOLDER, INTERVAL_S, Phase, Recording, phases_of
from tests.integration.processes import Service, free_address, running, serves
from tests.tiny import build_model
from tests.two_of_each import all_known

KEPT = (
    "outrider_round_queue_time_seconds_bucket",
    "outrider_busy_time_seconds_total",
    "outrider_kv_cache_usage",
    "outrider_sessions_cached",
    "outrider_num_requests_running",
)
NAMESPACE = "outrider"
PHASES = phases_of((("idle", 15), ("light", 90), ("overload", 120), ("quiet", 90)))


@dataclass(frozen=True, slots=True)
class Case:
    """Settings of replicas by role, answers at once by phase, and the tokens of a prompt and of an answer."""

    target: Mapping[str, str]
    draft: Mapping[str, str]
    load: Mapping[str, int]
    prompt: int
    answer: int


def _engine(pass_ms: str, rows: int = 256, kv: str = "1MiB") -> dict[str, str]:
    return {"OUTRIDER_SYNTHETIC_PASS_MS": pass_ms, "OUTRIDER_KV_BYTES": kv, "OUTRIDER_MAX_ROWS": str(rows)}


_SURE = {"OUTRIDER_SYNTHETIC_ACCEPTANCE": "0.9"}
CASES = {
    # A target's passes take the longer the more rows they have; the drafts are quick.
    "target": Case(_engine("1:20,4:24,64:400", 64), _engine("1:2,64:4"), {"light": 4, "overload": 40}, 24, 96),
    # A target takes as long for one row as for many, so that guesses are worth much; the drafts' passes grow.
    "draft": Case(_engine("1:40,256:50"), _engine("1:4,8:10,64:80") | _SURE, {"light": 4, "overload": 24}, 8, 160),
    # Passes have room for more, but the cache of a target holds no more than some seven answers.
    "cache": Case(_engine("1:40,256:50", kv="17KiB"), _engine("1:2,64:4"), {"light": 2, "overload": 14}, 100, 400),
}


@dataclass(slots=True)
class Scraper:
    """Owner of what has been scraped so far; ``ports`` by job and pod."""

    ports: Mapping[tuple[str, str], str]
    scrapes: list[dict[str, float]]

    def scrape(self) -> None:
        """Read every process once."""
        found: dict[str, float] = {}
        for (job, pod), port in self.ports.items():
            found |= _read(port, {"job": job, "namespace": NAMESPACE, "pod": pod})
        self.scrapes.append(found)

    def series(self) -> dict[str, tuple[float | None, ...]]:
        """Values of all scrapes by series."""
        names = {name for scrape in self.scrapes for name in scrape}
        return {name: tuple(scrape.get(name) for scrape in self.scrapes) for name in names}


def _read(port: str, where: Mapping[str, str]) -> dict[str, float]:
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=10) as response:
        text = response.read().decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {_name(s.name, {**where, **s.labels}): s.value for s in samples if s.name in KEPT}


def _name(name: str, labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{label}="{labels[label]}"' for label in sorted(labels))
    return f"{name}{{{pairs}}}"


async def _ask(client: Client, case: Case, stop: asyncio.Event, seed: int) -> None:
    """One answer after the other until the phase is over."""
    draw = random.Random(seed)
    while not stop.is_set():
        prompt = [draw.randrange(10, 300) for _ in range(case.prompt)]
        await client.answer(Ask(token_ids=prompt, max_new_tokens=case.answer, ignore_eos=True))


async def _phase(client: Client, case: Case, phase: Phase, began: float) -> None:
    """Its load, until its end."""
    stop = asyncio.Event()
    askers = [asyncio.create_task(_ask(client, case, stop, seed)) for seed in range(case.load.get(phase.name, 0))]
    await asyncio.sleep(began + phase.end_s - time.monotonic())
    stop.set()
    for asker in askers:
        asker.cancel()
    await asyncio.gather(*askers, return_exceptions=True)


async def _scraping(scraper: Scraper, began: float) -> None:
    for number in range(PHASES[-1].end_s // INTERVAL_S):
        await asyncio.sleep(began + number * INTERVAL_S - time.monotonic())
        await asyncio.to_thread(scraper.scrape)


@dataclass(slots=True)
class Processes:
    """Services that run, and the ports of their metrics."""

    stack: contextlib.AsyncExitStack
    ports: dict[tuple[str, str], str]

    async def start(self, role: str, number: int, variables: Mapping[str, str]) -> Service:
        """One more, once it serves."""
        port = free_address().rpartition(":")[2]
        exported = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": port}
        module = role if role == "orchestrator" else f"{role}_service"
        service = await self.stack.enter_async_context(running(module, {**variables, **exported}))
        await serves(service)
        self.ports[f"outrider-{role}", f"outrider-{role}-{number}"] = port
        return service

    async def pool(self, role: str, count: int, variables: Mapping[str, str]) -> str:
        """Addresses of so many replicas."""
        started = [await self.start(role, number, variables) for number in range(count)]
        return ",".join(service.address for service in started)


async def record(name: str, targets: int, drafts: int) -> Recording:
    """Start everything, let the load come and go, and tell what was seen."""
    case, model = CASES[name], str(build_model(Path(tempfile.mkdtemp()) / "model"))
    async with contextlib.AsyncExitStack() as stack:
        processes = Processes(stack, {})
        common = {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_MODEL": model}
        pools = {
            "OUTRIDER_TARGET": await processes.pool("target", targets, {**common, **case.target}),
            "OUTRIDER_DRAFT": await processes.pool("draft", drafts, {**common, **case.draft}),
        }
        orchestrator = await processes.start("orchestrator", 0, {"OUTRIDER_TOKENIZER": model, **pools})
        client = await stack.enter_async_context(Client(orchestrator.address))
        await all_known(client, targets + drafts)
        scraper, began = Scraper(processes.ports, []), time.monotonic()
        scraping = asyncio.create_task(_scraping(scraper, began))
        for phase in PHASES:
            await _phase(client, case, phase, began)
        await scraping
    return Recording(name, targets, drafts, PHASES, scraper.series())


if __name__ == "__main__":
    recording = asyncio.run(record(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{recording.name}.txt").write_text(recording.written())
