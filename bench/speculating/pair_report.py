"""What the real pair showed, as tables, closing figures and JSON. It knows measured runs; it runs nothing."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.engine_run import ALL, Run, cells_of, windows_of
from bench.report import table
from bench.speculating import figures, plan
from bench.speculating.pair import PairFound
from bench.speculating.sizes import LinkPayload
from bench.speculating.tables import identity_table, latency_table, times
from bench.systems.base import Step

_AUTO = (plan.SERIAL, plan.AHEAD, plan.COPIES)
_FIXED = tuple(plan.FIXED.values())


def _of(run: Run, *names: str) -> list[str]:
    """Those of the systems that the run measured."""
    measured = [facts.name for facts in run.facts]
    return [name for name in names if name in measured]


def speed_table(run: Run) -> str:
    """Tokens per second of every cell, and what AUTO makes of it."""
    names, others = [facts.name for facts in run.facts], _of(run, *_AUTO, plan.AGAIN)
    rows = []
    for cell in run.cells:
        speeds = [f"{figures.median_speed(run, name, *cell):.1f}" for name in names]
        alone = [run.against(plan.OFF, *cell, name) for name in others]
        best = figures.fastest(run, _of(run, plan.OFF, *_FIXED), *cell)
        rows.append([*cell, *speeds, *map(times, alone), times(run.against(best, *cell, plan.AHEAD)), best])
    speeds = [f"{name}, tokens/s" for name in names]
    ratios = [*(f"{name} / {plan.OFF}" for name in others), f"{plan.AHEAD} / best fixed", "best fixed"]
    return table(["sessions", "class, temperature", *speeds, *ratios], rows)


def _steps(run: Run, system: str, traffic: str) -> list[Step]:
    """Of all numbers of sessions."""
    return [step for count in run.sessions for step in figures.steps_of(run.windows(system, count, traffic))]


def acceptance_table(run: Run) -> str:
    """Acceptance by position of the longest fixed block, and emitted tokens a round, over all numbers of sessions."""
    speculating = _of(run, *_FIXED, *_AUTO)
    rows = []
    for traffic in dict.fromkeys(name for _, name in run.cells):
        shares = figures.acceptance_by_position(_steps(run, _FIXED[-1], traffic))
        means = [figures.mean_accepted_length(_steps(run, name, traffic)) for name in speculating]
        rows.append([traffic, " ".join(f"{one:.2f}" for one in shares), *(f"{mean:.2f}" for mean in means)])
    header = ["class, temperature", f"acceptance at positions 1 to {max(plan.FIXED)}"]
    return table([*header, *(f"{name}, tokens a round" for name in speculating)], rows)


def misfit_rows(run: Run) -> list[tuple[str, int, float, float]]:
    """(system, sessions, median, first): AUTO over the target alone behind the first rounds of each answer, over all
    windows and in the first one, when nothing was known of the draft."""
    rows = []
    for system in (plan.RANDOM, plan.SLOW):
        for sessions in run.sessions:
            ours, alone = (
                figures.settled(run.windows(name, sessions, ALL), plan.SETTLED_ROUNDS) for name in (system, plan.OFF)
            )
            ratios = [one / other for one, other in zip(ours, alone, strict=True)]
            rows.append((system, sessions, statistics.median(ratios), ratios[0]))
    return rows


def misfit_table(run: Run) -> str:
    """``misfit_rows`` in Markdown."""
    rows = [[system, sessions, f"{median:.3f}", f"{first:.3f}"] for system, sessions, median, first in misfit_rows(run)]
    return table(["system", "sessions", f"/ {plan.OFF}, after {plan.SETTLED_ROUNDS} rounds", "first answers"], rows)


def sizes_table(sizes: Sequence[LinkPayload]) -> str:
    """Payload of each link."""
    rows = []
    for one in sizes:
        to, back = (one.requests, one.largest_request), (one.responses, one.largest_response)
        rows.append([one.speculation, one.link, one.rounds, *(f"{value:.0f}" for value in (*to, *back))])
    header = ["speculation", "link", "rounds", "bytes a round to it", "largest message", "bytes a round from it"]
    return table([*header, "largest message"], rows)


def text(found: PairFound) -> str:
    """All tables."""
    runs = (found.everyday, found.copying)
    both = {name: plan.OFF for run in runs for name in _of(run, *_FIXED, *_AUTO)}
    parts = {
        "Speed": "\n\n".join(map(speed_table, runs)),
        "Latency": latency_table(found.everyday),
        "Acceptance": "\n\n".join(map(acceptance_table, runs)),
        "The same text": identity_table(runs, both),
        "Drafts that do not help": misfit_table(found.misfits),
        "Payload": sizes_table(found.sizes),
    }
    return "\n\n".join(f"### {title}\n\n{body}" for title, body in parts.items())


def result(found: PairFound) -> dict[str, float | None]:
    """Minima over all cells, of medians over rounds, and means to hold against the noise of single cells."""
    cells = [(run, cell) for run in (found.everyday, found.copying) for cell in run.cells]
    alone = [run.against(plan.OFF, *cell, plan.AHEAD) for run, cell in cells]
    fixed = [figures.against_fastest(run, plan.AHEAD, _of(run, plan.OFF, *_FIXED), *cell) for run, cell in cells]
    again = [found.everyday.against(plan.OFF, *cell, plan.AGAIN) for cell in found.everyday.cells]
    copies = found.copying.against(plan.OFF, *found.copying.cells[0], plan.COPIES)
    return {
        "auto_vs_target_only_min": figures.least(alone),
        "auto_vs_target_only_mean": figures.mean(alone),
        "auto_vs_best_fixed_min": figures.least(fixed),
        "auto_vs_best_fixed_mean": figures.mean(fixed),
        "noise_min": figures.least(again),
        "noise_mean": figures.mean(again),
        "ngram_copy_speedup": figures.least([copies]),
        **{
            f"{'random' if system == plan.RANDOM else 'slow'}_draft_vs_target_only_{sessions}": round(median, 3)
            for system, sessions, median, _ in misfit_rows(found.misfits)
        },
    }


def details(found: PairFound) -> dict[str, Any]:
    """What the JSON holds beside the result."""
    runs = {"everyday": found.everyday, "copying": found.copying, "misfits": found.misfits}
    return {name: {"cells": cells_of(run), "windows": windows_of(run)} for name, run in runs.items()} | {
        "sizes": [asdict(one) for one in found.sizes]
    }
