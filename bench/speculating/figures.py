"""Numbers about speculation out of measured windows, by the README's definitions. It starts nothing."""

import statistics
from collections.abc import Iterable, Sequence

from bench.engine_run import Run
from bench.summaries import Ratio, speeds
from bench.systems.base import Step, Timing
from bench.windows import Measured


def steps_of(windows: Iterable[Measured]) -> list[Step]:
    """Every step of every answer."""
    return [step for window in windows for timing in window.timings for step in timing.steps]


def acceptance_by_position(steps: Iterable[Step]) -> tuple[float, ...]:
    """At positions from 1: accepted there over rounds that proposed there."""
    kept = list(steps)
    longest = max((step.proposed for step in kept), default=0)
    shares = []
    for position in range(1, longest + 1):
        accepted = [step.accepted >= position for step in kept if step.proposed >= position]
        shares.append(sum(accepted) / len(accepted))
    return tuple(shares)


def mean_accepted_length(steps: Sequence[Step]) -> float:
    """Emitted over rounds."""
    return sum(len(step.ids) for step in steps) / max(1, len(steps))


def mean_draft_tokens(steps: Sequence[Step]) -> float:
    """Draft tokens of a round, rounds without any included."""
    return sum(step.proposed for step in steps) / max(1, len(steps))


def identical(ones: Iterable[Measured], others: Iterable[Measured]) -> tuple[int, int]:
    """How many answers are the same token for token, and how many were compared: those to the same requests."""
    answers = {one.window: one.timings for one in ones}
    pairs = [
        (mine.ids, theirs.ids) for other in others for mine, theirs in zip(answers.get(other.window, ()), other.timings)
    ]
    return sum(mine == theirs for mine, theirs in pairs), len(pairs)


def median_speed(run: Run, system: str, sessions: int, traffic: str) -> float:
    """Tokens per second in a cell, the median over rounds; 0 where the system was not measured."""
    windows = run.windows(system, sessions, traffic)
    return statistics.median(speeds(windows)) if windows else 0.0


def fastest(run: Run, systems: Iterable[str], sessions: int, traffic: str) -> str:
    """The system with the most tokens per second in a cell."""
    return max(systems, key=lambda system: median_speed(run, system, sessions, traffic))


def against_fastest(run: Run, ours: str, systems: Sequence[str], sessions: int, traffic: str) -> Ratio | None:
    """Our speed over that of whichever of the others is fastest in the cell."""
    return run.against(fastest(run, systems, sessions, traffic), sessions, traffic, ours)


def least(ratios: Iterable[Ratio | None]) -> float | None:
    """The smallest median of the ratios that were measured."""
    return min((round(one.median, 3) for one in ratios if one is not None), default=None)


def mean(ratios: Iterable[Ratio | None]) -> float | None:
    """Geometric mean of the medians."""
    medians = [one.median for one in ratios if one is not None]
    return round(statistics.geometric_mean(medians), 3) if medians else None


def rate_after(timing: Timing, rounds: int) -> float:
    """Tokens per second of an answer behind its first rounds, or behind all but its last."""
    count = min(rounds, len(timing.steps) - 1)
    begun, rest = timing.steps[count - 1].at, timing.steps[count:]
    return sum(len(step.ids) for step in rest) / (rest[-1].at - begun)


def settled(windows: Iterable[Measured], rounds: int) -> list[float]:
    """``rate_after`` of each window, the mean of its answers."""
    return [statistics.mean(rate_after(timing, rounds) for timing in window.timings) for window in windows]
