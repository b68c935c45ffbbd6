"""What went wrong in a round, in words: fail-overs, CacheMisses, faults of the draft, and the end of a request.

It knows events and errors of spans, not how they are shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider import semconv
from outrider.cli.bars import LANE_OF, Lane
from outrider.otlp_json import SpanEvent, SpanRecord


@dataclass(frozen=True, slots=True)
class Note:
    """Something to know of a round; microseconds since the request came."""

    at_us: int
    text: str


def notes_of(done: SpanRecord, exchanges: Sequence[SpanRecord], origin_ns: int) -> tuple[Note, ...]:
    """All of a round, in order of time."""
    found = [*_of_exchanges(exchanges), *_of_round(done, exchanges)]
    notes = [Note((at_ns - origin_ns) // 1000, text) for at_ns, text in found]
    return tuple(sorted(notes, key=lambda note: note.at_us))


def _of_exchanges(exchanges: Sequence[SpanRecord]) -> Iterator[tuple[int, str]]:
    for span in exchanges:
        for event in span.events:
            if event.name == semconv.EVENT_CACHE_MISS:
                reason = event.attributes.get(semconv.REASON, "")
                why = {"moved": "the session was elsewhere before", "lost": "it was lost there"}.get(reason, reason)
                yield event.at_ns, f"CacheMiss: {_who(span)} did not hold the prefix: {why}; the tokens are sent again"


def _of_round(done: SpanRecord, exchanges: Sequence[SpanRecord]) -> Iterator[tuple[int, str]]:
    for event in done.events:
        if event.name == semconv.EVENT_FAILOVER:
            where = event.attributes.get(semconv.SERVER_ADDRESS, "")
            why = _why(event, semconv.REASON, Lane.TARGET, exchanges)
            yield event.at_ns, f"fail-over: the answer leaves target {where}: {why}"
        elif event.name == semconv.EVENT_DRAFT_FAULT:
            yield event.at_ns, f"draft fault: {_why(event, semconv.ERROR_TYPE, Lane.DRAFT, exchanges)}"
    if done.error:
        yield done.end_ns, f"the round failed: {done.error}"


def _why(event: SpanEvent, attribute: str, lane: Lane, exchanges: Sequence[SpanRecord]) -> str:
    """The class of the error, and what the exchange says that had it last before the event."""
    reason = str(event.attributes.get(attribute, "unknown"))
    failed = [
        span
        for span in exchanges
        if span.error and LANE_OF[span.name] is lane and span.attributes.get(semconv.ERROR_TYPE) == reason
    ]
    before = [span for span in failed if span.end_ns <= event.at_ns] or failed
    if not before:
        return reason
    last = max(before, key=lambda span: span.end_ns)
    return f"{reason}: {last.error}" if lane is Lane.TARGET else f"{_who(last)}: {reason}: {last.error}"


def _who(span: SpanRecord) -> str:
    return f"{LANE_OF[span.name].value} {span.attributes.get(semconv.SERVER_ADDRESS, '')}".strip()
