"""The synthetic pair: separate processes whose passes take a set time, so that the two need no common cores.

A pass of the target takes 20 ms, one of the draft 2 ms; a draft token is right with a set chance. Swept are the round
trip to the draft (through ``bench/proxy.py``), the acceptance, and the number of sessions.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.engine_run import Run, SystemFacts
from bench.proxy import Proxy
from bench.shape import Shape
from bench.speculating import plan
from bench.speculating.pair import SERIAL_ONLY
from bench.systems import outrider
from bench.systems.site import Seat, Site, replica, serving, site
from bench.traffic import TrafficClass
from bench.traffic_texts import SHORT
from bench.turns import measure, say
from bench.windows import windows
from outrider.cli.service import Service
from outrider.throughput import Costs, even_acceptance, expected_tokens
from outrider.tokenizer import Tokenizer

TARGET_S, DRAFT_S = 0.02, 0.002
ACCEPTANCE = 0.8
LENGTHS = (1, 2, 4, 6, 8, 10)
CROWDED_TARGET_MS = "1:20,32:22,64:26,128:40,256:75"
CROWDED_DRAFT_MS = "1:2,64:3,256:8"
"""Passes that take longer the more rows they have, as where many sessions share a device."""
_CROWDED_LENGTHS = (1, 2, 4, 6)
_ANY = "requests"


@dataclass(frozen=True, slots=True)
class SyntheticFound:
    """Runs by round trip in milliseconds, by acceptance, and by sessions (of one run)."""

    by_round_trip: Mapping[float, Run]
    by_acceptance: Mapping[float, Run]
    by_sessions: Run


def fixed_names(lengths: Sequence[int] = LENGTHS) -> dict[int, str]:
    """Names of the fixed lengths."""
    return {k: f"k = {k}" for k in lengths}


def overlap_bound(acceptance: float, round_trip_s: float, most: int = 16) -> float:
    """Tokens per second when every outcome is prepared for and preparing one costs what it costs alone, at the best
    length: E(k) / max(verify(k), prepare(k, 1)), in the terms of ``outrider/throughput.py``."""
    costs = Costs(lambda rows: DRAFT_S, lambda rows: TARGET_S, rtt_draft_s=round_trip_s)
    chances = even_acceptance(acceptance, most)
    return max(expected_tokens(chances, k) / max(costs.verify_s(k), costs.prepare_s(k, 1)) for k in range(1, most + 1))


def _variables(pass_ms: str, **more: str) -> dict[str, str]:
    return {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_SYNTHETIC_PASS_MS": pass_ms, "OUTRIDER_KV_BYTES": "16MiB", **more}


def a_draft(name: str, folder: str, logs: Path, acceptance: float, pass_ms: str = "2") -> Service:
    """A draft whose passes take a set time."""
    return replica(name, folder, logs, _variables(pass_ms, OUTRIDER_SYNTHETIC_ACCEPTANCE=str(acceptance)))


def a_target(name: str, folder: str, logs: Path, pass_ms: str = "20") -> Service:
    """A target whose passes take a set time."""
    return replica(name, folder, logs, _variables(pass_ms), "target_service")


@dataclass(frozen=True, slots=True)
class Bench:
    """What all points of a sweep have in common."""

    folder: str
    logs: Path
    sizes: plan.Sizes
    tokenizer: Tokenizer

    @property
    def traffic(self) -> TrafficClass:
        """Short prompts, answers of one length."""
        return TrafficClass("synthetic", SHORT, self.sizes.synthetic_tokens)

    @asynccontextmanager
    async def site(self, target: str, draft: str) -> AsyncGenerator[Site, None]:
        """Orchestrators over both, one for each way that learns."""
        seats = [Seat(_ANY, draft), Seat(plan.SERIAL, draft, SERIAL_ONLY), Seat(plan.AHEAD, draft)]
        async with site(target, self.folder, seats, self.logs, "synthetic") as ready:
            yield ready

    async def point(self, target: str, draft: str, lengths: Sequence[int], rounds: plan.Rounds) -> Run:
        """All ways in turns over one draft."""
        async with self.site(target, draft) as ready:
            systems = [
                ready.system(plan.OFF, _ANY, outrider.OFF),
                *(ready.system(name, _ANY, outrider.fixed(k)) for k, name in fixed_names(lengths).items()),
                *(ready.system(name, name, outrider.AUTO) for name in (plan.SERIAL, plan.AHEAD)),
            ]
            plan_of = list(windows(rounds, (self.traffic,)))
            measured = await measure(systems, plan_of, self.tokenizer, self.traffic)
            return Run(measured, [SystemFacts(system.name, system.settings, ()) for system in systems])


async def by_round_trip(bench: Bench, target: str, draft: str) -> dict[float, Run]:
    """One point for each round trip to the draft."""
    runs = {}
    for milliseconds, count in bench.sizes.round_trips_ms.items():
        say(f"round trip to the draft: {milliseconds:g} ms")
        async with Proxy(draft, Shape(delay_s=milliseconds / 2000)) as proxy:
            address = proxy.address if milliseconds else draft
            runs[milliseconds] = await bench.point(target, address, LENGTHS[2:], {1: count})
    return runs


async def _by_acceptance(bench: Bench, target: str, drafts: Mapping[float, str]) -> dict[float, Run]:
    runs = {}
    for acceptance, draft in drafts.items():
        say(f"acceptance {acceptance:g}")
        runs[acceptance] = await bench.point(target, draft, LENGTHS, {1: 1})
    return runs


async def _by_sessions(bench: Bench) -> Run:
    say("many sessions")
    target = a_target("crowded-target", bench.folder, bench.logs, CROWDED_TARGET_MS)
    draft = a_draft("crowded-draft", bench.folder, bench.logs, ACCEPTANCE, CROWDED_DRAFT_MS)
    async with serving([target, draft]):
        return await bench.point(target.address, draft.address, _CROWDED_LENGTHS, bench.sizes.sessions)


async def measure_synthetic(folder: str, sizes: plan.Sizes, logs: Path) -> SyntheticFound:
    """The part; ``folder`` is a model whose tokenizer is used. Raises BenchError."""
    bench = Bench(folder, logs, sizes, Tokenizer.load(folder))
    target = a_target("synthetic-target", folder, logs)
    drafts = {chance: a_draft(f"draft-{chance:g}", folder, logs, chance) for chance in sizes.acceptances}
    async with serving([target, *drafts.values()]):
        distances = await by_round_trip(bench, target.address, drafts[ACCEPTANCE].address)
        addresses = {chance: draft.address for chance, draft in drafts.items()}
        by_acceptance = await _by_acceptance(bench, target.address, addresses)
    return SyntheticFound(distances, by_acceptance, await _by_sessions(bench))
