"""A recording of the metrics that autoscaling looks at, as text: a few series of a few processes, every 15 s.

A file has a line of facts, then a line for each series in the notation of ``promtool test rules``: labels, and a value
for each scrape, ``_`` where there was none. It knows the notation, not what the series mean.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "recorded"
INTERVAL_S = 15
"""Between two scrapes, as in prometheus.yaml."""
_FACTS = re.compile(r"# case (\w+), (\d+) targets, (\d+) drafts; phases (.+)")

Series = Mapping[str, tuple[float | None, ...]]
"""Values by name and labels, as Prometheus writes them: ``name{label="value"}``."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a recording with the same load throughout; times are in seconds from its beginning."""

    name: str
    begin_s: int
    end_s: int


@dataclass(frozen=True, slots=True)
class Recording:
    """What was scraped of a pool of each kind under a load that changes in phases."""

    case: str
    targets: int
    drafts: int
    phases: tuple[Phase, ...]
    series: Series

    @property
    def name(self) -> str:
        """The name of its file, without the ending."""
        return f"{self.case}-{self.targets}-{self.drafts}"

    @property
    def length_s(self) -> int:
        """Seconds from the first scrape to the end."""
        return self.phases[-1].end_s

    def phase(self, name: str) -> Phase:
        """The first phase of a name. Raises KeyError."""
        return {phase.name: phase for phase in reversed(self.phases)}[name]

    def written(self) -> str:
        """The text of its file."""
        phases = " ".join(f"{phase.name}:{phase.end_s - phase.begin_s}" for phase in self.phases)
        facts = f"# case {self.case}, {self.targets} targets, {self.drafts} drafts; phases {phases}"
        lines = (f"{name} {' '.join(map(_text, values))}" for name, values in sorted(self.series.items()))
        return "\n".join((facts, *lines, ""))


def _text(value: float | None) -> str:
    return "_" if value is None else f"{value:.6g}" if value != int(value) else str(int(value))


def phases_of(lengths: Iterable[tuple[str, int]]) -> tuple[Phase, ...]:
    """Phases one after the other, from their names and seconds."""
    made: list[Phase] = []
    for name, seconds in lengths:
        begin = made[-1].end_s if made else 0
        made.append(Phase(name, begin, begin + seconds))
    return tuple(made)


def parsed(text: str) -> Recording:
    """The recording of a file's text. Raises ValueError for another format."""
    first, *lines = text.splitlines()
    facts = _FACTS.fullmatch(first)
    if facts is None:
        raise ValueError(f"not the first line of a recording: {first!r}")
    lengths = (part.split(":") for part in facts[4].split())
    series = {}
    for line in lines:
        name, _, values = line.partition("} ")
        series[name + "}"] = tuple(None if value == "_" else float(value) for value in values.split())
    phases = phases_of((name, int(seconds)) for name, seconds in lengths)
    return Recording(facts[1], int(facts[2]), int(facts[3]), phases, series)


def recordings(case: str) -> dict[tuple[int, int], Recording]:
    """All of a case, by the number of targets and of drafts."""
    found = (parsed(path.read_text()) for path in sorted(FOLDER.glob(f"{case}-*.txt")))
    return {(recording.targets, recording.drafts): recording for recording in found}
