"""Spans of one round as bars: when each of orchestrator, draft and target worked, waited, or was on its way.

A replica's time is placed inside its exchange: half of the network's share, its queue, its passes, the other half. So
no two clocks are compared. It knows spans and times since a request came, not what a round decided.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from outrider import semconv
from outrider.otlp_json import SpanRecord


class Lane(StrEnum):
    """Whose time a bar is."""

    ORCHESTRATOR = "orchestrator"
    DRAFT = "draft"
    TARGET = "target"


class Kind(StrEnum):
    """What a bar is: passes of a model, or the orchestrator's own work; a wait for a pass; a message on its way; a
    question whose answer nobody waited for, so that nobody knows; one that failed."""

    WORK = "work"
    WAIT = "wait"
    NETWORK = "network"
    ASKED = "asked"
    FAILED = "failed"


LANE_OF = {
    semconv.SPAN_PROPOSE_CLIENT: Lane.DRAFT,
    semconv.SPAN_LOOK_AHEAD_CLIENT: Lane.DRAFT,
    semconv.SPAN_VERIFY_CLIENT: Lane.TARGET,
}
"""Of exchanges, by the name of their span."""
_MOST = 1e12
_WAITED_FOR = (semconv.SPAN_PROPOSE_CLIENT, semconv.SPAN_VERIFY_CLIENT)
"""Exchanges in which the orchestrator can only wait; it looks at a look-ahead when there is time."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time on a lane, in microseconds since the request came; ``span``: its exchange, or the round."""

    lane: Lane
    kind: Kind
    start_us: int
    end_us: int
    span: str = semconv.SPAN_ROUND

    def as_dict(self) -> dict[str, Any]:
        """For --json; whose lane it is stands outside."""
        return {"kind": self.kind.value, "start_us": self.start_us, "end_us": self.end_us, "span": self.span}


def number(attributes: Mapping[str, Any], name: str, default: float = 0) -> float:
    """A number among attributes. Raises ValueError when it is something else, or larger than what is counted here."""
    value = attributes.get(name, default)
    if not isinstance(value, int | float) or not -_MOST <= value <= _MOST:
        raise ValueError(f"{name} is {value!r}; it must be a number up to {_MOST:g}")
    return value


def one_way_us(exchanges: Iterable[SpanRecord]) -> int:
    """A message's way to the target at its quickest, for the rounds of a run, of which nobody can tell."""
    to_target = [span for span in exchanges if LANE_OF.get(span.name) is Lane.TARGET]
    known = [number(span.attributes, semconv.NETWORK_US) for span in to_target if semconv.NETWORK_US in span.attributes]
    return int(min(known, default=0)) // 2


def bars_of_round(done: SpanRecord, exchanges: Sequence[SpanRecord], origin_ns: int, way_us: int) -> tuple[Bar, ...]:
    """All bars of a round. Raises ValueError for attributes that are no numbers."""
    replicas = [bar for span in exchanges for bar in _exchange(span, origin_ns, way_us)]
    waited = sorted(_times(span, origin_ns) for span in exchanges if span.name in _WAITED_FOR)
    own = [Bar(Lane.ORCHESTRATOR, Kind.WORK, *free) for free in _between(waited, *_times(done, origin_ns))]
    return (*own, *replicas)


def _times(span: SpanRecord, origin_ns: int) -> tuple[int, int]:
    return (span.start_ns - origin_ns) // 1000, (span.end_ns - origin_ns) // 1000


def _between(taken: Iterable[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """What is left of a stretch; ``taken`` is in order."""
    for a, b in taken:
        if a > start:
            yield start, min(a, end)
        start = max(start, b)
    if end > start:
        yield start, end


def _exchange(span: SpanRecord, origin_ns: int, way_us: int) -> Iterator[Bar]:
    lane, (start, end) = LANE_OF[span.name], _times(span, origin_ns)
    if span.error or semconv.FORWARD_US not in span.attributes:
        yield Bar(lane, Kind.FAILED if span.error else Kind.ASKED, start, end, span.name)
        return
    queue = int(number(span.attributes, semconv.QUEUE_US))
    forward = int(number(span.attributes, semconv.FORWARD_US))
    if semconv.NETWORK_US in span.attributes:
        way = int(number(span.attributes, semconv.NETWORK_US)) // 2
        arrives = start + way
    else:  # in a run: the target went on by itself, and only when its verdict came is known
        way, start = way_us, end - way_us - forward - queue
        arrives = start
    marks = (start, arrives, arrives + queue, arrives + queue + forward, arrives + queue + forward + way)
    for kind, a, b in zip((Kind.NETWORK, Kind.WAIT, Kind.WORK, Kind.NETWORK), marks, marks[1:], strict=False):
        if b > a:
            yield Bar(lane, kind, a, b, span.name)
