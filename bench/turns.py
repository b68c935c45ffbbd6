"""Lets systems answer in turns: one runs, the others are halted, and nobody's idle thread pool takes a core.

It knows how a window is measured; which windows there are comes from ``bench/windows.py``.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from bench.engine_run import Run, SystemFacts
from bench.processes import BenchError, awake, halt, peak_memory_mib, process_name, tree
from bench.systems.base import Request, System, Timing
from bench.systems.outrider import outrider
from bench.systems.transformers import transformers
from bench.systems.vllm import documented, vllm
from bench.traffic import CLASSES, shortened
from bench.windows import Measured, Window, rotated
from outrider.tokenizer import Tokenizer

_KV_GIB = 2
_WINDOW_S = 600.0
_WARM_UP_TOKENS = 4


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextlib.asynccontextmanager
async def _loaded(model: str, logs: Path) -> AsyncIterator[list[System]]:
    """All systems, started one after the other and halted; ours is started last and comes first."""
    starting = (transformers(model, logs), vllm(model, logs, documented(_KV_GIB)), outrider(model, logs, _KV_GIB))
    async with contextlib.AsyncExitStack() as stack:
        systems: list[System] = []
        for one in starting:
            system: System = await stack.enter_async_context(one)
            say(f"{system.name} is loaded")
            halt(system.roots)
            systems.insert(0, system)
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


def _rehearsal(sessions: int) -> Window:
    """A short window that is not kept, so that no system meets a number of sessions for the first time."""
    traffic = shortened(CLASSES[:1], CLASSES[0].new_tokens // _WARM_UP_TOKENS)[0]
    return Window(0, sessions, 0, 0, traffic)


async def _measure(systems: Sequence[System], plan: Sequence[Window], tokenizer: Tokenizer) -> list[Measured]:
    measured: list[Measured] = []
    rehearsed: set[int] = set()
    for window in plan:
        if window.sessions not in rehearsed:
            rehearsed.add(window.sessions)
            await _turn(systems, _rehearsal(window.sessions), tokenizer)
        turn = await _turn(systems, window, tokenizer)
        speeds = ", ".join(f"{one.system} {one.tokens / one.seconds:.1f}" for one in turn)
        say(f"{window.sessions} sessions, {window.traffic.name}, round {window.round_number + 1}: {speeds} tokens/s")
        measured += turn
    return measured


def _facts(system: System) -> SystemFacts:
    memory = tuple((process_name(pid), peak_memory_mib(pid)) for pid in tree(system.roots))
    return SystemFacts(system.name, system.settings, memory)


async def compare(model: str, plan: Sequence[Window], logs: Path) -> Run:
    """Load everything, measure the plan, stop everything. Raises BenchError when a system fails."""
    async with _loaded(model, logs) as systems:
        measured = await _measure(systems, plan, Tokenizer.load(model))
        return Run(measured, [_facts(system) for system in systems])
