"""Which faults come in what order, where, and for how long: a pure function of a seed.

Every kind comes equally often, and within a kind every place. Two faults never share a group at a time, so one of two
targets and one of two orchestrators are always well; drafts and Redis may all be gone.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What happens."""

    KILL = "kill -9, restart"
    STOP = "SIGSTOP, SIGCONT"
    TERMINATE = "SIGTERM, restart"
    REDIS_FREEZE = "Redis frozen"
    REDIS_RESTART = "Redis restarted"
    REDIS_FLUSH = "Redis emptied"
    DELAY = "network: delay"
    CUT = "network: cut"
    CALLER_GONE = "network: half-open, the caller is gone"
    CALLEE_GONE = "network: half-open, the callee is gone"
    BLACK_HOLE = "network: black hole"
    LIAR = "draft replaced by a liar"
    SMALL_KV = "target with little KV"


@dataclass(frozen=True, slots=True)
class Place:
    """A process and the network before it; ``index`` of its role."""

    role: str
    index: int = 0

    def __str__(self) -> str:
        return self.role if self.role == "redis" else f"{self.role} {self.index}"

    @property
    def group(self) -> str:
        """Of it one is hit at a time."""
        return str(self) if self.role in ("draft", "redis") else self.role


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault: ``pause_s`` after the one before it (or when its group is well again), for ``hold_s``."""

    number: int
    kind: Kind
    place: Place
    hold_s: float
    pause_s: float

    def __str__(self) -> str:
        return f"fault {self.number}: {self.kind.value}, {self.place}, {self.hold_s:.1f} s"


REDIS = (Place("redis"),)
TARGETS = tuple(Place("target", index) for index in range(2))
DRAFTS = tuple(Place("draft", index) for index in range(2))
PROCESSES = (*TARGETS, *DRAFTS, *(Place("orchestrator", index) for index in range(2)))

_PLACES: dict[Kind, tuple[Place, ...]] = {
    Kind.KILL: PROCESSES,
    Kind.STOP: PROCESSES,
    Kind.TERMINATE: PROCESSES,
    Kind.REDIS_FREEZE: REDIS,
    Kind.REDIS_RESTART: REDIS,
    Kind.REDIS_FLUSH: REDIS,
    Kind.DELAY: (*PROCESSES, *REDIS),
    Kind.CUT: (*PROCESSES, *REDIS),
    Kind.CALLER_GONE: (*PROCESSES, *REDIS),
    Kind.CALLEE_GONE: (*PROCESSES, *REDIS),
    Kind.BLACK_HOLE: (*PROCESSES, *REDIS),
    Kind.LIAR: DRAFTS,
    Kind.SMALL_KV: TARGETS,
}
_HOLD_S: dict[Kind, tuple[float, float]] = {  # no shorter than it takes to notice: else all would seem well at once
    Kind.KILL: (0.0, 2.0),
    Kind.STOP: (0.5, 6.0),
    Kind.TERMINATE: (0.0, 1.0),
    Kind.REDIS_FREEZE: (0.5, 6.0),
    Kind.REDIS_RESTART: (0.0, 3.0),
    Kind.LIAR: (3.0, 6.0),
    Kind.SMALL_KV: (4.0, 8.0),
    Kind.DELAY: (1.0, 4.0),
    Kind.CUT: (0.5, 1.0),
    Kind.CALLER_GONE: (0.5, 1.0),
    Kind.CALLEE_GONE: (4.0, 5.0),
    Kind.BLACK_HOLE: (0.5, 6.0),
}


def _dealt(draw: random.Random, things: tuple[Place, ...]) -> Iterator[Place]:
    while True:
        yield from draw.sample(things, len(things))


def schedule(seed: int, count: int) -> tuple[Planned, ...]:
    """So many faults."""
    draw = random.Random(f"faults/{seed}")
    places = {kind: _dealt(draw, _PLACES[kind]) for kind in Kind}
    kinds: list[Kind] = []
    planned = []
    for number in range(count):
        kinds = kinds or draw.sample(list(Kind), len(Kind))
        kind = kinds.pop()
        hold_s = round(draw.uniform(*_HOLD_S.get(kind, (0.0, 0.0))), 2)
        planned.append(Planned(number, kind, next(places[kind]), hold_s, round(draw.uniform(0.0, 0.6), 2)))
    return tuple(planned)
