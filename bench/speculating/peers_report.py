"""What peers showed beside ours, as tables, closing figures and JSON. It runs nothing."""

from dataclasses import asdict
from typing import Any

from bench.engine_run import cells_of, windows_of
from bench.report import table
from bench.speculating import figures, plan
from bench.speculating.peers import BASES, PeersFound
from bench.speculating.tables import identity_table, latency_table, times

_VLLM = (plan.VLLM, plan.VLLM_DRAFT, plan.VLLM_NGRAM)


def speed_table(found: PeersFound) -> str:
    """Tokens per second of every system in every cell, and ours over the fastest vLLM."""
    run = found.run
    names = [facts.name for facts in run.facts]
    rows = []
    for cell in run.cells:
        speeds = [figures.median_speed(run, name, *cell) for name in names]
        best = figures.fastest(run, _VLLM, *cell)
        ratio = times(run.against(best, *cell, plan.AHEAD))
        rows.append([*cell, *(f"{speed:.1f}" if speed else "" for speed in speeds), ratio, best])
    speeds_of = [f"{name}, tokens/s" for name in names]
    return table(["sessions", "class, temperature", *speeds_of, f"{plan.AHEAD} / best vLLM", "best vLLM"], rows)


def text(found: PeersFound) -> str:
    """All tables, and what is missing from them."""
    notes = [f"- {facts.name}: {facts.settings}." for facts in found.run.facts]
    notes += [f"- left out: {reason}" for reason in found.missing]
    parts = {
        "Peers": "\n".join(notes) + f"\n\n{speed_table(found)}",
        "Peers, latency": latency_table(found.run),
        "Peers, the same text": identity_table([found.run], BASES),
    }
    return "\n\n".join(f"### {title}\n\n{body}" for title, body in parts.items())


def result(found: PeersFound) -> dict[str, float | None]:
    """AUTO over the fastest vLLM at one session, the minimum over cells."""
    run = found.run
    single = [cell for cell in run.cells if cell[0] == 1]
    ratios = (figures.against_fastest(run, plan.AHEAD, _VLLM, *cell) for cell in single)
    return {"auto_vs_vllm_best_1": figures.least(ratios)}


def details(found: PeersFound) -> dict[str, Any]:
    """What the JSON holds beside the result."""
    run = found.run
    return {
        "peers": {
            "systems": [asdict(facts) for facts in run.facts],
            "missing": list(found.missing),
            "cells": cells_of(run),
            "windows": windows_of(run),
        }
    }
