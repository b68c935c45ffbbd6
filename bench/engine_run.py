"""What one run of ``bench/engine.py`` measured, by cell (sessions, class, system), and its JSON.

It knows measured windows; it neither runs nor draws anything.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.summaries import Ratio, chosen, latency, ratio, speeds
from bench.windows import Measured

OURS = "Outrider"
ALL = "all"


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """What a system was: its settings in words, and peak memory in MiB of each of its processes."""

    name: str
    settings: str
    memory_mib: tuple[tuple[str, int], ...]


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that one run measured."""

    measured: Sequence[Measured]
    facts: Sequence[SystemFacts]

    @property
    def cells(self) -> list[tuple[int, str]]:
        """Sessions and class of every row of a table."""
        return _unique((one.window.sessions, one.window.traffic.name) for one in self.measured)

    @property
    def sessions(self) -> list[int]:
        """Numbers of sessions."""
        return _unique(sessions for sessions, _ in self.cells)

    def windows(self, system: str, sessions: int, traffic: str) -> list[Measured]:
        """Windows of a cell; class ``ALL`` takes every class."""
        return chosen(self.measured, system, sessions, None if traffic == ALL else traffic)

    def against(self, other: str, sessions: int, traffic: str = ALL, ours: str = OURS) -> Ratio | None:
        """Our speed over another system's, or None where one of them was not measured."""
        mine, theirs = (self.windows(system, sessions, traffic) for system in (ours, other))
        return ratio(mine, theirs) if mine and theirs else None


def cells_of(run: Run) -> list[dict[str, Any]]:
    """Summary of every cell."""
    return [
        {
            "system": facts.name,
            "sessions": sessions,
            "class": traffic,
            "tokens_per_s": round(statistics.median(speeds(windows)), 2),
            **asdict(latency(windows)),
        }
        for sessions, traffic in run.cells
        for facts in run.facts
        if (windows := run.windows(facts.name, sessions, traffic))
    ]


def windows_of(run: Run) -> list[dict[str, Any]]:
    """Every window."""
    return [
        {
            "system": one.system,
            "sessions": one.window.sessions,
            "round": one.window.round_number,
            "class": one.window.traffic.name,
            "seconds": round(one.seconds, 4),
            "tokens": one.tokens,
        }
        for one in run.measured
    ]


def _ratios(run: Run) -> dict[str, Any]:
    """Our speed over each peer's, over all classes."""
    return {
        f"{facts.name} at {sessions}": asdict(found)
        for sessions in run.sessions
        for facts in run.facts
        if facts.name != OURS and (found := run.against(facts.name, sessions))
    }


def details(run: Run, passes: Mapping[str, Any]) -> dict[str, Any]:
    """What the JSON holds beside the result."""
    return {
        "systems": [asdict(facts) for facts in run.facts],
        "passes": dict(passes),
        "ratios": _ratios(run),
        "cells": cells_of(run),
        "windows": windows_of(run),
    }
