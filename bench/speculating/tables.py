"""Tables that both the pair's and the peers' report hold. It knows measured runs; it runs nothing."""

from collections.abc import Iterable, Mapping
from itertools import product

from bench.engine_run import Run
from bench.report import table
from bench.speculating import figures
from bench.summaries import Ratio, latency
from bench.windows import Measured


def times(value: Ratio | None) -> str:
    """A ratio with its range over rounds."""
    if value is None:
        return ""
    return f"{value.median:.2f}x" + (f" ({value.least:.2f} to {value.most:.2f})" if value.most > value.least else "")


def temperatures(run: Run) -> list[float]:
    """In the order in which they were measured."""
    return list(dict.fromkeys(one.window.traffic.temperature for one in run.measured))


def at_temperature(run: Run, system: str, temperature: float, sessions: int | None = None) -> list[Measured]:
    """Windows of a system, of all classes together."""
    return [
        one
        for one in run.measured
        if one.system == system
        and one.window.traffic.temperature == temperature
        and sessions in (None, one.window.sessions)
    ]


def latency_table(run: Run) -> str:
    """Time per output token of every system, all classes together."""
    rows = []
    for sessions, temperature, facts in product(run.sessions, temperatures(run), run.facts):
        windows = at_temperature(run, facts.name, temperature, sessions)
        if windows:
            found = latency(windows)
            tpot = " / ".join(f"{value:.1f}" for value in found.tpot_ms)
            rows.append([sessions, f"{temperature:g}", facts.name, found.answers, tpot])
    return table(["sessions", "temperature", "system", "answers", "TPOT ms p50 / p95 / p99"], rows)


def identity_rows(runs: Iterable[Run], bases: Mapping[str, str]) -> list[tuple[str, str, float, int, int]]:
    """(system, the same without speculation, temperature, identical answers, compared answers)."""
    rows = []
    kept = list(runs)
    for (system, base), temperature in product(bases.items(), temperatures(kept[0])):
        found = [
            figures.identical(*(at_temperature(run, name, temperature) for name in (base, system))) for run in kept
        ]
        same, total = (sum(column) for column in zip(*found))
        if total:
            rows.append((system, base, temperature, same, total))
    return rows


def identity_table(runs: Iterable[Run], bases: Mapping[str, str]) -> str:
    """``identity_rows`` in Markdown."""
    rows = [
        [system, base, f"{temperature:g}", f"{same} of {total}"]
        for system, base, temperature, same, total in identity_rows(runs, bases)
    ]
    return table(["system", "against", "temperature", "answers identical"], rows)
