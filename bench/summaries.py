"""Numbers out of measured windows: percentiles of latencies, tokens per second, ratios between systems.

Definitions are those of the README and of OpenTelemetry: TTFT from sending to the first token, TPOT the mean time of
each further token, end-to-end from sending to the last token.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.systems.base import Timing
from bench.windows import Measured

PERCENTILES = (50, 95, 99)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of the values lie, linear between neighbours."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def ttft_ms(timing: Timing) -> float:
    """Time to the first token, milliseconds."""
    return (timing.first - timing.sent) * 1e3


def tpot_ms(timing: Timing) -> float:
    """Mean time of a token after the first, milliseconds."""
    return (timing.last - timing.first) * 1e3 / max(1, timing.tokens - 1)


def end_to_end_s(timing: Timing) -> float:
    """Time to the last token, seconds."""
    return timing.last - timing.sent


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles 50, 95 and 99 over ``answers`` answers; TTFT and TPOT in milliseconds, end-to-end in seconds."""

    answers: int
    ttft_ms: tuple[float, ...]
    tpot_ms: tuple[float, ...]
    end_to_end_s: tuple[float, ...]


def latency(windows: Iterable[Measured]) -> Latency:
    """Over all answers of these windows."""
    timings = [timing for window in windows for timing in window.timings]
    columns = [[measure(timing) for timing in timings] for measure in (ttft_ms, tpot_ms, end_to_end_s)]
    three = [tuple(percentile(column, percent) for percent in PERCENTILES) for column in columns]
    return Latency(len(timings), *three)


def chosen(
    measured: Iterable[Measured], system: str, sessions: int | None = None, traffic: str | None = None
) -> list[Measured]:
    """Windows of a system, of a number of sessions and of a class unless these are None."""
    return [
        one
        for one in measured
        if one.system == system
        and sessions in (None, one.window.sessions)
        and traffic in (None, one.window.traffic.name)
    ]


def speeds(windows: Iterable[Measured]) -> list[float]:
    """Tokens per second of each round: all tokens over all seconds."""
    tokens: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for one in windows:
        number = one.window.round_number
        tokens[number] = tokens.get(number, 0) + one.tokens
        seconds[number] = seconds.get(number, 0.0) + one.seconds
    return [tokens[number] / seconds[number] for number in sorted(tokens)]


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast: the median over rounds, and the least and the most of a round."""

    median: float
    least: float
    most: float


def ratio(ours: Iterable[Measured], theirs: Iterable[Measured]) -> Ratio:
    """Speed of the one over speed of the other, round by round, because rounds share the machine's hour."""
    ratios = [one / other for one, other in zip(speeds(ours), speeds(theirs), strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
