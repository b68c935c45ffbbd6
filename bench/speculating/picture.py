"""Pictures of ``bench/speculation.py``: speed-up over acceptance and over distance, throughput over sessions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from bench.engine_run import Run
from bench.speculating import figures, plan
from bench.speculating.synthetic import SyntheticFound
from bench.speculating.synthetic_report import (
    BOUND,
    bounds_by_acceptance,
    bounds_by_round_trip,
    chosen,
    lengths,
    speeds,
)
from bench.speculating.tables import temperatures

Line = Sequence[tuple[float, float]]


def _draw(axis: Any, title: str, xlabel: str, lines: Mapping[str, Line]) -> None:
    for label, points in lines.items():
        axis.plot(*zip(*points), marker="o", label=label, linestyle="--" if label == BOUND else "-")
    axis.set(title=title, xlabel=xlabel)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)


def _speed_ups(runs: Mapping[float, Run], bounds: Mapping[float, float]) -> dict[str, Line]:
    found = {point: speeds(run) | {BOUND: bounds[point]} for point, run in runs.items()}
    labels = next(iter(found.values()))
    return {
        label: [(point, made[label] / made[plan.OFF]) for point, made in found.items()]
        for label in labels
        if label != plan.OFF
    }


def _save(figure: Any, caption: str, file: Path) -> None:
    figure.supxlabel(caption, fontsize=7)
    figure.savefig(file, dpi=130)
    pyplot.close(figure)


def _crowd(axis: Any, run: Run, names: Sequence[str], title: str) -> None:
    """Throughput over sessions, the draft tokens that AUTO chose beside its line."""
    lines = {name: [(cell[0], figures.median_speed(run, name, *cell)) for cell in run.cells] for name in names}
    _draw(axis, title, "sessions (beside the line: draft tokens a round)", lines)
    axis.set_xscale("log")
    axis.set_xticks(run.sessions)
    axis.set_xticklabels([str(sessions) for sessions in run.sessions])
    axis.minorticks_off()
    for sessions, speed in lines[plan.AHEAD]:
        axis.annotate(f"{chosen(run, plan.AHEAD, int(sessions)):.1f}", (sessions, speed), fontsize=7)


def draw_synthetic(found: SyntheticFound, caption: str, file: Path) -> None:
    """Write the synthetic pair's three sweeps as PNG."""
    figure, axes = pyplot.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
    by_acceptance = _speed_ups(found.by_acceptance, bounds_by_acceptance(found))
    _draw(axes[0], f"speed-up over {plan.OFF}", "acceptance of a draft token", by_acceptance)
    by_round_trip = _speed_ups(found.by_round_trip, bounds_by_round_trip(found))
    _draw(axes[1], f"speed-up over {plan.OFF}", "round trip to the draft, ms", by_round_trip)
    run = found.by_sessions
    names = [plan.OFF, *lengths(run), plan.SERIAL, plan.AHEAD]
    _crowd(axes[2], run, names, "tokens per second")
    _save(figure, caption, file)


def draw_pair(run: Run, caption: str, file: Path) -> None:
    """Write the real pair's throughput over sessions as PNG, one panel for each class and temperature."""
    names = [plan.OFF, *plan.FIXED.values(), plan.SERIAL, plan.AHEAD]
    traffic = list(dict.fromkeys(name for _, name in run.cells))
    rows = len(temperatures(run))
    columns = -(-len(traffic) // rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4 * columns, 3.6 * rows), layout="constrained")
    for index, name in enumerate(traffic):
        cells = Run([one for one in run.measured if one.window.traffic.name == name], run.facts)
        _crowd(axes[index % rows][index // rows], cells, names, f"{name}: tokens per second")
    _save(figure, caption, file)
