"""The picture of ``bench/engine.py``: speed and latency over the number of sessions, one line per system."""

import statistics
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import LogLocator

from bench.engine_run import ALL, Run
from bench.summaries import latency, speeds
from bench.windows import Measured

Value = Callable[[list[Measured]], float]

_PANELS: tuple[tuple[str, Value], ...] = (
    ("tokens per second", lambda windows: statistics.median(speeds(windows))),
    ("time to first token, ms, median", lambda windows: latency(windows).ttft_ms[0]),
    ("time per output token, ms, median", lambda windows: latency(windows).tpot_ms[0]),
)


def draw(run: Run, caption: str, file: Path) -> None:
    """Write the picture as PNG."""
    figure, axes = pyplot.subplots(1, len(_PANELS), figsize=(13, 4.2), layout="constrained")
    for axis, (title, value) in zip(axes, _PANELS, strict=True):
        for facts in run.facts:
            points = [
                (sessions, value(windows))
                for sessions in run.sessions
                if (windows := run.windows(facts.name, sessions, ALL))
            ]
            axis.plot(*zip(*points, strict=True), marker="o", label=facts.name)
        axis.set(title=title, xlabel="sessions", xscale="log", yscale="log", xticks=run.sessions)
        axis.set_xticklabels([str(sessions) for sessions in run.sessions])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.grid(alpha=0.3, which="both")
    axes[0].legend()
    figure.supxlabel(caption, fontsize=7)
    figure.savefig(file, dpi=130)
    pyplot.close(figure)
