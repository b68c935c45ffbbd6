"""What the synthetic pair showed, as tables, closing figures and JSON. It runs nothing."""

from collections.abc import Mapping
from typing import Any

from bench.engine_run import Run, cells_of
from bench.report import table
from bench.speculating import figures, plan
from bench.speculating.synthetic import ACCEPTANCE, SyntheticFound, overlap_bound
from bench.summaries import latency

_AUTO = (plan.SERIAL, plan.AHEAD)
BEST, BOUND = "best fixed", "perfect overlap"


def lengths(run: Run) -> list[str]:
    """Names of the fixed lengths of a run."""
    return [facts.name for facts in run.facts if facts.name not in (plan.OFF, *_AUTO)]


def rate(run: Run, system: str) -> float:
    """Tokens per second after the first token, of a run with one cell: the inverse of its TPOT, the median."""
    (cell,) = run.cells
    return 1e3 / latency(run.windows(system, *cell)).tpot_ms[0]


def best_length(run: Run) -> str:
    """The fastest fixed length of a run with one cell."""
    return max(lengths(run), key=lambda name: rate(run, name))


def speeds(run: Run) -> dict[str, float]:
    """``rate`` of the target alone, the best fixed length, and AUTO."""
    named = {plan.OFF: plan.OFF, BEST: best_length(run)} | {name: name for name in _AUTO}
    return {label: rate(run, name) for label, name in named.items()}


def chosen(run: Run, system: str, sessions: int) -> float:
    """Draft tokens a round at a number of sessions."""
    traffic = next(name for count, name in run.cells if count == sessions)
    return figures.mean_draft_tokens(figures.steps_of(run.windows(system, sessions, traffic)))


def sweep_table(name: str, runs: Mapping[float, Run], bounds: Mapping[float, float]) -> str:
    """One line per point of a sweep at one session."""
    rows = []
    for point, run in runs.items():
        found = speeds(run) | {BOUND: bounds[point]}
        ratios = [f"{found[plan.AHEAD] / found[other]:.2f}x" for other in (plan.OFF, BEST, plan.SERIAL, BOUND)]
        length = f"{chosen(run, plan.AHEAD, 1):.1f}"
        rows.append([f"{point:g}", *(f"{one:.1f}" for one in found.values()), best_length(run), length, *ratios])
    columns = [f"{one}, tokens/s" for one in (plan.OFF, BEST, *_AUTO, BOUND)]
    against = [f"{plan.AHEAD} / {other}" for other in (plan.OFF, BEST, plan.SERIAL, BOUND)]
    return table([name, *columns, "best fixed", f"{plan.AHEAD}, draft tokens a round", *against], rows)


def crowd_table(run: Run) -> str:
    """Tokens per second by sessions, and the draft tokens that AUTO chose."""
    names = [facts.name for facts in run.facts]
    rows = []
    for cell in run.cells:
        found = [f"{figures.median_speed(run, name, *cell):.0f}" for name in names]
        rows.append([cell[0], *found, *(f"{chosen(run, one, cell[0]):.1f}" for one in _AUTO)])
    speeds_of = [f"{name}, tokens/s" for name in names]
    return table(["sessions", *speeds_of, *(f"{name}, draft tokens a round" for name in _AUTO)], rows)


def bounds_by_round_trip(found: SyntheticFound) -> dict[float, float]:
    """Tokens per second of a perfect overlap at each round trip in milliseconds."""
    return {point: overlap_bound(ACCEPTANCE, point / 1000) for point in found.by_round_trip}


def bounds_by_acceptance(found: SyntheticFound) -> dict[float, float]:
    """The same at each acceptance."""
    return {point: overlap_bound(point, 0.0) for point in found.by_acceptance}


def text(found: SyntheticFound) -> str:
    """All tables."""
    parts = {
        f"Synthetic, acceptance {ACCEPTANCE:g}": sweep_table(
            "round trip to the draft, ms", found.by_round_trip, bounds_by_round_trip(found)
        ),
        "Synthetic, by acceptance": sweep_table("acceptance", found.by_acceptance, bounds_by_acceptance(found)),
        "Synthetic, by sessions": crowd_table(found.by_sessions),
    }
    return "\n\n".join(f"### {title}\n\n{body}" for title, body in parts.items())


def _least(found: SyntheticFound, with_lengths: bool) -> float:
    """AUTO over the target alone, or over the fastest of it and the fixed lengths: the minimum over all points."""
    points = [speeds(run) for run in (*found.by_round_trip.values(), *found.by_acceptance.values())]
    ratios = [one[plan.AHEAD] / max(one[plan.OFF], one[BEST] if with_lengths else 0.0) for one in points]
    crowd = found.by_sessions
    others = [plan.OFF, *(lengths(crowd) if with_lengths else [])]
    crowded = [figures.against_fastest(crowd, plan.AHEAD, others, *cell) for cell in crowd.cells]
    return round(min(*ratios, *(one.median for one in crowded if one is not None)), 3)


def result(found: SyntheticFound) -> dict[str, float | None]:
    """Look-ahead against the better of AUTO serial and the best fixed length, and against the bound."""
    values: dict[str, float | None] = {}
    for point in (0.0, 10.0):
        if point in found.by_round_trip:
            made = speeds(found.by_round_trip[point])
            serial = max(made[plan.SERIAL], made[BEST])
            values[f"lookahead_vs_serial_{point:g}ms"] = round(made[plan.AHEAD] / serial, 3)
            if not point:
                values["lookahead_vs_bound_0ms"] = round(made[plan.AHEAD] / bounds_by_round_trip(found)[0.0], 3)
    values["synthetic_auto_vs_target_only_min"] = _least(found, False)
    values["synthetic_auto_vs_best_fixed_min"] = _least(found, True)
    return values


def details(found: SyntheticFound) -> dict[str, Any]:
    """What the JSON holds beside the result."""
    sweeps = {"by_round_trip_ms": found.by_round_trip, "by_acceptance": found.by_acceptance}
    cells = {name: {f"{point:g}": cells_of(run) for point, run in runs.items()} for name, runs in sweeps.items()}
    return {"synthetic": {**cells, "by_sessions": cells_of(found.by_sessions)}}
