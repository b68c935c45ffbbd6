"""Lets systems answer in turns: one runs, the others are halted, and nobody's idle thread pool takes a core.

It knows how a window is measured; which windows there are comes from ``bench/windows.py``.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from bench.engine_run import Run, SystemFacts
from bench.processes import BenchError, awake, halt, peak_memory_mib, process_name, tree
from bench.systems.base import Request, System, Timing
from bench.systems.outrider import outrider
from bench.systems.transformers import transformers
from bench.systems.vllm import documented, vllm
from bench.traffic import CLASSES, TrafficClass, shortened
from bench.windows import Measured, Window, rotated
from outrider.tokenizer import Tokenizer

_KV_GIB = 2
_WINDOW_S = 600.0
_WARM_UP_TOKENS = 4


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


Starting = contextlib.AbstractAsyncContextManager[Any]
"""Brings up a System, or a list of several that share processes."""


@contextlib.asynccontextmanager
async def loaded(starting: Sequence[Starting]) -> AsyncIterator[list[System]]:
    """All systems, started one after the other and halted; those started last come first."""
    async with contextlib.AsyncExitStack() as stack:
        systems: list[System] = []
        for one in starting:
            found = await stack.enter_async_context(one)
            group: list[System] = found if isinstance(found, list) else [found]
            for system in group:
                say(f"{system.name} is loaded")
                halt(system.roots)
            systems = group + systems
        yield systems


async def _answers(system: System, requests: Sequence[Request]) -> tuple[Timing, ...]:
    """All requests at once, after one short answer that wakes the system up."""
    warm_up = Request(requests[0].ids[:_WARM_UP_TOKENS], _WARM_UP_TOKENS)
    try:
        with awake(system.roots):
            async with asyncio.timeout(_WINDOW_S):
                await system.answer(warm_up)
                return tuple(await asyncio.gather(*map(system.answer, requests)))
    except TimeoutError:
        raise BenchError(f"{system.name} did not answer {len(requests)} requests within {_WINDOW_S:g} s") from None


async def _turn(systems: Sequence[System], window: Window, tokenizer: Tokenizer) -> list[Measured]:
    """One window of every system that can serve so many sessions."""
    requests = window.requests(tokenizer)
    able = [system for system in systems if window.sessions <= system.most_sessions]
    return [
        Measured(system.name, window, await _answers(system, requests))  # in order: one at a time
        for system in rotated(able, window.turn)
    ]


def _rehearsal(sessions: int, traffic: TrafficClass) -> Window:
    """A window that is not kept, so that no system meets a number of sessions for the first time."""
    return Window(0, sessions, 0, 0, traffic)


SHORT_REHEARSAL = shortened(CLASSES[:1], CLASSES[0].new_tokens // _WARM_UP_TOKENS)[0]


async def measure(
    systems: Sequence[System],
    plan: Sequence[Window],
    tokenizer: Tokenizer,
    rehearsal: TrafficClass | None = SHORT_REHEARSAL,
) -> list[Measured]:
    """The plan, window by window. Raises BenchError when a system fails."""
    measured: list[Measured] = []
    rehearsed: set[int] = set()
    for window in plan:
        if rehearsal is not None and window.sessions not in rehearsed:
            rehearsed.add(window.sessions)
            await _turn(systems, _rehearsal(window.sessions, rehearsal), tokenizer)
        turn = await _turn(systems, window, tokenizer)
        speeds = ", ".join(f"{one.system} {one.tokens / one.seconds:.1f}" for one in turn)
        say(f"{window.sessions} sessions, {window.traffic.name}, round {window.round_number + 1}: {speeds} tokens/s")
        measured += turn
    return measured


def facts_of(system: System) -> SystemFacts:
    """Its settings, and the memory of its processes so far."""
    memory = tuple((process_name(pid), peak_memory_mib(pid)) for pid in tree(system.roots))
    return SystemFacts(system.name, system.settings, memory)


async def compare(model: str, plan: Sequence[Window], logs: Path) -> Run:
    """Load everything, measure the plan, stop everything. Raises BenchError when a system fails."""
    starting = (transformers(model, logs), vllm(model, logs, documented(_KV_GIB)), outrider(model, logs, _KV_GIB))
    async with loaded(starting) as systems:
        measured = await measure(systems, plan, Tokenizer.load(model))
        return Run(measured, [facts_of(system) for system in systems])
