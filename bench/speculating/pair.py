"""The real pair: the target alone, blocks of a fixed length and AUTO in turns, at every class and number of sessions.

One target and one draft serve every way. Requests of a fixed way share an orchestrator; AUTO has one to itself for
each of its variants, and learns from nothing but its own answers.
"""

import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.engine_run import Run, SystemFacts
from bench.speculating import plan
from bench.speculating.sizes import LinkPayload, measure_sizes
from bench.systems import outrider
from bench.systems.outrider import Outrider
from bench.systems.site import Seat, Site, replica, serving, site
from bench.traffic import CLASSES, COPYING, TrafficClass
from bench.turns import measure, say
from bench.windows import Window, windows
from outrider.cli.service import Service
from outrider.tokenizer import Tokenizer

SERIAL_ONLY = {"OUTRIDER_LOOK_AHEAD": "false"}
TARGET_VARIABLES = {"OUTRIDER_KV_BYTES": "1GiB", "OUTRIDER_COMPILE": "on"}
DRAFT_VARIABLES = TARGET_VARIABLES | {"OUTRIDER_KV_BYTES": "256MiB"}
SETTINGS = ", ".join(f"{key}={value}" for key, value in TARGET_VARIABLES.items())
_ANY = "requests"
_MISFIT_SERIAL = 800
"""Far from the windows of the default draft: prompts of their own."""


@dataclass(frozen=True, slots=True)
class PairFound:
    """What the part measured."""

    everyday: Run
    copying: Run
    misfits: Run
    sizes: Sequence[LinkPayload]


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


def _alone(ready: Site, name: str = plan.OFF) -> Outrider:
    return ready.system(name, _ANY, outrider.OFF)


def _blocks(ready: Site, lengths: Iterable[int]) -> list[Outrider]:
    return [ready.system(plan.FIXED[k], _ANY, outrider.fixed(k)) for k in lengths]


def _auto(ready: Site, *names: str) -> list[Outrider]:
    return [ready.system(name, name, outrider.AUTO) for name in names]


async def _run(
    systems: Sequence[Outrider],
    wanted: Sequence[Window],
    tokenizer: Tokenizer,
    rehearsal: TrafficClass | None,
) -> Run:
    measured = await measure(systems, wanted, tokenizer, rehearsal)
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
    tokenizer, (_, long, rehearsal, _) = Tokenizer.load(target), CLASSES
    async with _ready(target, draft, logs) as (replicas, ready):
        say("a draft that has learned nothing, and one that is slow")
        unfit = [_alone(ready), *_auto(ready, plan.RANDOM, plan.SLOW)]
        misfits = await _run(unfit, list(windows(sizes.misfits, (long,), _MISFIT_SERIAL)), tokenizer, None)
        say("the default draft")
        autos = _auto(ready, plan.SERIAL, plan.AHEAD)
        every = [_alone(ready), *_blocks(ready, plan.FIXED), _alone(ready, plan.AGAIN), *autos]
        everyday = await _run(every, sizes.pair.windows(CLASSES), tokenizer, rehearsal)
        some = [_alone(ready), *_blocks(ready, (2, 4)), *_auto(ready, plan.AHEAD, plan.COPIES)]
        copying = await _run(some, sizes.pair.windows((COPYING,)), tokenizer, None)
        counted = await measure_sizes(replicas.target.address, replicas.draft.address, target, logs)
    return PairFound(everyday, copying, misfits, counted)
