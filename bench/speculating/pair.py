"""The real pair: the target alone, blocks of a fixed length and AUTO in turns, at every class and number of sessions.

One target and one draft serve every way. Requests of a fixed way share an orchestrator; AUTO has one to itself for
each of its variants, and learns from nothing but its own answers.
"""

import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.engine_run import Run, SystemFacts
from bench.speculating import plan
from bench.speculating.sizes import Sizes, measure_sizes
from bench.systems import outrider
from bench.systems.outrider import Outrider
from bench.systems.site import Seat, Site, replica, serving, site
from bench.traffic import CLASSES, TrafficClass
from bench.turns import measure, say
from bench.windows import Measured, windows
from outrider.cli.stack import Service
from outrider.tokenizer import Tokenizer

SERIAL_ONLY = {"OUTRIDER_LOOK_AHEAD": "false"}
TARGET_VARIABLES = {"OUTRIDER_KV_BYTES": "1GiB", "OUTRIDER_COMPILE": "on"}
DRAFT_VARIABLES = TARGET_VARIABLES | {"OUTRIDER_KV_BYTES": "256MiB"}
SETTINGS = ", ".join(f"{key}={value}" for key, value in TARGET_VARIABLES.items())
_ANY = "requests"


@dataclass(frozen=True, slots=True)
class PairFound:
    """What the part measured."""

    everyday: Run
    copying: Run
    misfits: Run
    sizes: Sequence[Sizes]


@dataclass(frozen=True, slots=True)
class _Replicas:
    target: Service
    draft: Service
    random: Service
    slow: Service

    @property
    def services(self) -> list[Service]:
        return [self.target, self.draft, self.random, self.slow]


def _replicas(target: str, draft: str, logs: Path) -> _Replicas:
    unlearned = logs / "random-draft"
    subprocess.run([sys.executable, "-m", "bench.speculating.random_draft", draft, str(unlearned)], check=True)
    return _Replicas(
        replica("target", target, logs, TARGET_VARIABLES, "target_service"),
        replica("draft", draft, logs, DRAFT_VARIABLES),
        replica("random-draft", str(unlearned), logs, DRAFT_VARIABLES),
        replica("slow-draft", draft, logs, DRAFT_VARIABLES, "bench.speculating.slow_draft"),
    )


def _seats(replicas: _Replicas) -> list[Seat]:
    draft = replicas.draft.address
    return [
        Seat(_ANY, draft),
        Seat(plan.SERIAL, draft, SERIAL_ONLY),
        Seat(plan.AHEAD, draft),
        Seat(plan.COPIES),
        Seat(plan.RANDOM, replicas.random.address),
        Seat(plan.SLOW, replicas.slow.address),
    ]


def _fixed_systems(ready: Site) -> list[Outrider]:
    blocks = [ready.system(name, _ANY, outrider.fixed(k)) for k, name in plan.FIXED.items()]
    return [ready.system(plan.OFF, _ANY, outrider.OFF), *blocks, ready.system(plan.AGAIN, _ANY, outrider.OFF)]


def _auto(ready: Site, *names: str) -> list[Outrider]:
    return [ready.system(name, name, outrider.AUTO) for name in names]


async def _run(
    systems: Sequence[Outrider],
    rounds: plan.Rounds,
    classes: Sequence[TrafficClass],
    tokenizer: Tokenizer,
    rehearsal: TrafficClass | None,
) -> Run:
    measured: list[Measured] = await measure(systems, list(windows(rounds, classes)), tokenizer, rehearsal)
    return Run(measured, [SystemFacts(system.name, system.settings, ()) for system in systems])


@asynccontextmanager
async def _ready(target: str, draft: str, logs: Path) -> AsyncGenerator[tuple[_Replicas, Site], None]:
    replicas = _replicas(target, draft, logs)
    async with (
        serving(replicas.services),
        site(replicas.target.address, target, _seats(replicas), logs, SETTINGS) as ready,
    ):
        yield replicas, ready


async def measure_pair(target: str, draft: str, sizes: plan.Sizes, logs: Path) -> PairFound:
    """The part. Raises BenchError."""
    tokenizer, long, rehearsal = Tokenizer.load(target), CLASSES[1], CLASSES[2]
    async with _ready(target, draft, logs) as (replicas, ready):
        say("a draft that has learned nothing, and one that is slow")
        unfit = [ready.system(plan.OFF, _ANY, outrider.OFF), *_auto(ready, plan.RANDOM, plan.SLOW)]
        misfits = await _run(unfit, sizes.misfits, (long,), tokenizer, None)
        fit = [*_fixed_systems(ready), *_auto(ready, plan.SERIAL, plan.AHEAD)]
        say("the default draft")
        everyday = await _run(fit, sizes.pair, plan.everyday(sizes.divisor), tokenizer, rehearsal)
        fit += _auto(ready, plan.COPIES)
        copying = await _run(fit, sizes.pair, plan.copying(sizes.divisor), tokenizer, None)
        counted = await measure_sizes(replicas.target.address, replicas.draft.address, target, logs)
    return PairFound(everyday, copying, misfits, counted)
