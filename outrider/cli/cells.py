"""Bars as cells of a terminal: which of them is in a cell, how much time a cell is, and the axis above. Arithmetic."""

import statistics
from collections.abc import Sequence

from outrider.cli.bars import Bar, Kind, Lane
from outrider.cli.traced import Round

_MOST_OF_MEDIAN = 3.0
"""A round that takes longer than so many usual ones, as the first one of a long prompt, is cut rather than make all
others too small to see."""
_LEAST_TICK = 10


def scale_us(rounds: Sequence[Round]) -> float:
    """Microseconds of an axis that fits rounds."""
    long = [max([done.end_us, *(bar.end_us for bar in done.bars)]) - done.start_us for done in rounds]
    usual = statistics.median(done.end_us - done.start_us for done in rounds) if rounds else 0.0
    return max(1.0, min(max(long, default=0), _MOST_OF_MEDIAN * usual))


def cells(done: Round, lane: Lane, cell_us: float, count: int) -> list[Kind | None]:
    """What of a lane is in each of the cells after the start of a round; what takes most of a cell has it."""
    bars = [bar for bar in done.bars if bar.lane is lane]
    return [_in_cell(bars, done.start_us + place * cell_us, cell_us) for place in range(count)]


def goes_on(done: Round, cell_us: float, count: int) -> bool:
    """Whether a round takes longer than so many cells."""
    return done.end_us - done.start_us > cell_us * count * (1 + 1e-9)


def _in_cell(bars: Sequence[Bar], begin_us: float, cell_us: float) -> Kind | None:
    shares = [(min(bar.end_us, begin_us + cell_us) - max(bar.start_us, begin_us), bar.kind) for bar in bars]
    share, kind = max(shares, key=lambda each: each[0], default=(0.0, None))
    return kind if share > 0 else None


def axis(count: int, cell_us: float) -> str:
    """Milliseconds above cells, at round numbers."""
    step_ms = _tick_ms(_LEAST_TICK * cell_us / 1000)
    line = ""
    for tick in range(int(count * cell_us / 1000 / step_ms) + 1):
        place, label = round(tick * step_ms * 1000 / cell_us), f"{tick * step_ms:g}" if tick else "0 ms"
        if place + len(label) <= count:
            line = line.ljust(place) + label
    return line.ljust(count)


def _tick_ms(least: float) -> float:
    """The smallest of 1, 2, 5, 10, ... that is not below ``least``."""
    tick = 0.001
    while True:
        for factor in (1, 2, 5):
            if tick * factor >= least:
                return round(tick * factor, 3)
        tick *= 10
