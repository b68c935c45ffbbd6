"""Spans of requests as an orchestrator saves them, made by hand: each test says the times that it is about.

Times are microseconds since the request came.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider import semconv
from outrider.otlp_json import SpanEvent, SpanRecord

ORIGIN_NS = 1_700_000_000_000_000_000
TARGET = {semconv.SERVER_ADDRESS: "target:1"}
DRAFT = {semconv.SERVER_ADDRESS: "draft:1"}


def timings(queue_us: int, forward_us: int, network_us: int | None) -> dict[str, Any]:
    known = {semconv.QUEUE_US: queue_us, semconv.FORWARD_US: forward_us, semconv.NETWORK_US: network_us}
    return {name: value for name, value in known.items() if value is not None}


def event(name: str, at_us: int, **attributes: Any) -> SpanEvent:
    return SpanEvent(name, ORIGIN_NS + at_us * 1000, {key.replace("__", "."): each for key, each in attributes.items()})


@dataclass
class Trace:
    """One request's spans, which grow."""

    trace_id: str = "a" * 32
    session_id: str = "s" * 32
    came_us: int = 0
    spans: list[SpanRecord] = field(default_factory=list)

    def add(self, name: str, parent_id: str, start_us: int, end_us: int, **more: Any) -> str:
        span_id = f"{len(self.spans) + 1:016x}"
        start, end = (ORIGIN_NS + (self.came_us + at) * 1000 for at in (start_us, end_us))
        service = "outrider-orchestrator"
        self.spans.append(SpanRecord(self.trace_id, span_id, parent_id, name, service, start, end, **more))
        return span_id

    def request(self, end_us: int, **more: Any) -> str:
        attributes = {
            semconv.SESSION_ID: self.session_id,
            semconv.REQUEST_MODEL: "/models/big",
            semconv.OUTCOME: "stop",
        }
        return self.add(
            semconv.SPAN_GENERATE, "", 0, end_us, attributes={**attributes, **more.pop("attributes", {})}, **more
        )

    def round(
        self, root: str, number: int, start_us: int, end_us: int, block: Sequence[str] = (),
        said: Sequence[str] = ("x",), accepted: int = 0, mode: str = "serial", texts: bool = True, **more: Any,
    ) -> str:  # fmt: skip
        attributes = {
            semconv.ROUND: number,
            semconv.MODE: mode,
            semconv.DRAFT_TOKENS: len(block),
            semconv.PROPOSED: len(block),
            semconv.ACCEPTED: accepted,
            semconv.EMITTED: len(said),
        }
        if texts:
            attributes |= {semconv.BLOCK_TEXTS: list(block), semconv.EMITTED_TEXTS: list(said)}
        attributes |= more.pop("attributes", {})
        return self.add(semconv.SPAN_ROUND, root, start_us, end_us, attributes=attributes, **more)


def two_rounds(**names: Any) -> Trace:
    """A prefill of the target alone, then a block of two of which one is accepted."""
    trace = Trace(**names)
    root = trace.request(50_000, attributes={semconv.TTFT_S: 0.012, semconv.INPUT_TOKENS: 30, semconv.CACHED_PROMPT: 8})
    trace.add(semconv.SPAN_QUEUE, root, 0, 500)
    trace.add(semconv.SPAN_PREFILL, root, 1_000, 11_000)
    first = trace.round(root, 0, 1_000, 12_000, said=["The"], mode="target_only")
    trace.add(semconv.SPAN_VERIFY_CLIENT, first, 1_000, 11_000, attributes={**timings(1_000, 7_000, 2_000), **TARGET})
    second = trace.round(root, 1, 20_000, 50_000, [" fox", " ran"], [" fox", " is"], 1)
    trace.add(semconv.SPAN_PROPOSE_CLIENT, second, 21_000, 29_000, attributes={**timings(0, 4_000, 4_000), **DRAFT})
    trace.add(
        semconv.SPAN_VERIFY_CLIENT, second, 30_000, 48_000, attributes={**timings(2_000, 12_000, 4_000), **TARGET}
    )
    return trace


def otlp(spans: Iterable[SpanRecord]) -> str:
    """Spans as a collector saves them."""
    return json.dumps(
        {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": [_saved(span) for span in spans]}]}]}
    )


def _saved(span: SpanRecord) -> dict[str, Any]:
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": span.parent_id,
        "name": span.name,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "events": [
            {"name": each.name, "timeUnixNano": str(each.at_ns), "attributes": _attributes(each.attributes)}
            for each in span.events
        ],
        "status": {"code": 2, "message": span.error} if span.error else {},
    }


def _attributes(known: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in known.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    kind = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}[type(value)]
    return {kind: str(value) if kind == "intValue" else value}
