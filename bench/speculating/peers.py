"""The same pair in other systems: vLLM and transformers, each with and without its own speculation, beside ours.

One system runs at a time; the others are halted.
"""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engine_run import Run
from bench.processes import BenchError
from bench.speculating import plan
from bench.speculating.pair import DRAFT_VARIABLES, SETTINGS, TARGET_VARIABLES
from bench.systems import outrider
from bench.systems.base import System
from bench.systems.outrider import Outrider
from bench.systems.site import Seat, replica, serving, site
from bench.systems.transformers import ASSISTED, LOOKUP, Transformers, transformers
from bench.systems.vllm import documented, vllm
from bench.traffic import CLASSES, COPYING
from bench.turns import Starting, facts_of, loaded, measure, say
from outrider.tokenizer import Tokenizer

_KV_GIB = 1
_ANY = "requests"
BASES = {
    plan.AHEAD: plan.OFF,
    plan.VLLM_DRAFT: plan.VLLM,
    plan.VLLM_NGRAM: plan.VLLM,
    f"transformers {ASSISTED}": "transformers",
    f"transformers {LOOKUP}": "transformers",
}
"""Speculating systems, and the same system without."""


@dataclass(frozen=True, slots=True)
class PeersFound:
    """What the part measured, and why a peer is missing."""

    run: Run
    missing: Sequence[str]


@contextlib.asynccontextmanager
async def _ours(target: str, draft: str, logs: Path) -> AsyncGenerator[list[Outrider], None]:
    replicas = [
        replica("target", target, logs, TARGET_VARIABLES, "target_service"),
        replica("draft", draft, logs, DRAFT_VARIABLES),
    ]
    addresses = [one.address for one in replicas]
    seats = [Seat(_ANY, addresses[1]), Seat(plan.AHEAD, addresses[1])]
    async with serving(replicas), site(addresses[0], target, seats, logs, SETTINGS, replicas) as ready:
        yield [
            ready.system(plan.AHEAD, plan.AHEAD, outrider.AUTO, halts=True),
            ready.system(plan.OFF, _ANY, outrider.OFF, halts=True),
        ]


@contextlib.asynccontextmanager
async def _generate(target: str, draft: str, logs: Path) -> AsyncGenerator[list[Transformers], None]:
    async with transformers(target, logs, draft) as plain:
        yield [plain, *(plain.speculating(mode) for mode in (ASSISTED, LOOKUP))]


@contextlib.asynccontextmanager
async def _if_it_starts(name: str, starting: Starting, missing: list[str]) -> AsyncGenerator[list[System], None]:
    """The system, or nothing and a reason."""
    async with contextlib.AsyncExitStack() as stack:
        found: list[System] = []
        try:
            found.append(await stack.enter_async_context(starting))
        except BenchError as error:
            say(f"{name} is left out: {error}")
            missing.append(f"{name}: {str(error).splitlines()[0]}")
        yield found


def _vllm(name: str, target: str, logs: Path, missing: list[str], speculative: dict[str, Any] | None) -> Starting:
    return _if_it_starts(name, vllm(target, logs, documented(_KV_GIB), name, speculative), missing)


async def measure_peers(target: str, draft: str, sizes: plan.Sizes, logs: Path) -> PeersFound:
    """The part. Raises BenchError when ours or transformers fails, or vLLM is not installed."""
    missing: list[str] = []
    with_draft = {"method": "draft_model", "model": draft, "num_speculative_tokens": 2}
    starting: list[Starting] = [
        _generate(target, draft, logs),
        _vllm(plan.VLLM_DRAFT, target, logs, missing, with_draft),
        _vllm(plan.VLLM_NGRAM, target, logs, missing, {"method": "ngram", "num_speculative_tokens": 4}),
        _vllm(plan.VLLM, target, logs, missing, None),
        _ours(target, draft, logs),
    ]
    async with loaded(starting) as systems:
        measured = await measure(systems, sizes.peers.windows((*CLASSES, COPYING)), Tokenizer.load(target))
        return PeersFound(Run(measured, [facts_of(system) for system in systems]), missing)
