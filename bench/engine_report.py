"""Tables and notes of ``bench/engine.py``. It knows what a run measured; it runs nothing."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.engine_run import ALL, OURS, Run
from bench.report import table
from bench.summaries import Latency, Ratio, latency, speeds
from bench.windows import Measured


def _speed_cell(windows: Sequence[Measured]) -> str:
    return f"{statistics.median(speeds(windows)):.1f}" if windows else "not measured"


def _ratio_cell(value: Ratio | None) -> str:
    if value is None:
        return ""
    return f"{value.median:.2f}x" + (f" ({value.least:.2f} to {value.most:.2f})" if value.most > value.least else "")


def speed_table(run: Run) -> str:
    """Tokens per second of every system, medians over rounds, and our ratio to each peer."""
    names = [facts.name for facts in run.facts]
    peers = [name for name in names if name != OURS]
    rows = []
    for sessions in run.sessions:
        for traffic in [name for count, name in run.cells if count == sessions] + [ALL]:
            speed = [_speed_cell(run.windows(name, sessions, traffic)) for name in names]
            ratios = [_ratio_cell(run.against(peer, sessions, traffic)) for peer in peers]
            rows.append([sessions, traffic, *speed, *ratios])
    header = ["sessions", "class", *(f"{name}, tokens/s" for name in names), *(f"{OURS} / {peer}" for peer in peers)]
    return table(header, rows)


def _percentiles(values: Sequence[float], digits: int) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)


def _latency_row(found: Latency) -> list[Any]:
    cells = ((found.ttft_ms, 0), (found.tpot_ms, 1), (found.end_to_end_s, 2))
    return [found.answers, *(_percentiles(values, digits) for values, digits in cells)]


def latency_table(run: Run) -> str:
    """p50, p95 and p99 of every cell and system."""
    rows = []
    for sessions, traffic in run.cells:
        for facts in run.facts:
            windows = run.windows(facts.name, sessions, traffic)
            if windows:
                rows.append([sessions, traffic, facts.name, *_latency_row(latency(windows))])
    header = ["sessions", "class", "system", "answers", "TTFT ms p50 / p95 / p99", "TPOT ms", "end-to-end s"]
    return table(header, rows)


def memory_table(run: Run) -> str:
    """Peak memory of every system, process by process."""
    rows = []
    for facts in run.facts:
        parts = ", ".join(f"{name} {mib}" for name, mib in facts.memory_mib)
        rows.append([facts.name, sum(mib for _, mib in facts.memory_mib), parts])
    return table(["system", "peak memory, MiB", "of that"], rows)


def notes(run: Run, model: str) -> str:
    """What was run, in words."""
    lines = [
        f"{model}, bf16, greedy, no speculation, answers of a fixed length; the same token ids for every system. "
        "One system runs at a time: the others are halted. transformers is measured at one session: `generate` takes "
        "no requests while it runs. Speeds and ratios are medians over rounds (in brackets the least and the most of "
        "a round); latencies are over all answers of all rounds."
    ]
    lines += [f"- {facts.name}: {facts.settings}." for facts in run.facts]
    return "\n".join(lines)


def passes_table(passes: Mapping[str, Any]) -> str:
    """What ``bench/passes.py`` measured: milliseconds of passes by rows, and single figures."""
    by_rows = passes.get("milliseconds", {})
    columns = list(next(iter(by_rows.values()), {}))
    grid = table(["rows", *(f"{column}, ms" for column in columns)], [[r, *v.values()] for r, v in by_rows.items()])
    figures = [[name, f"{value:g}"] for name, value in passes.items() if isinstance(value, int | float)]
    return "\n\n".join([*([grid] if by_rows else []), table(["pass", "value"], figures)])
