"""Spans as OTLP JSON, the form in which traces are saved: written from the SDK's spans, read from any collector's file.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids are hexadecimal, 64-bit numbers may be text. It
does not know what the spans say.
"""

import base64
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger(__name__)
_IDS = ("traceId", "spanId", "parentSpanId")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something within a span; nanoseconds since 1970."""

    name: str
    at_ns: int
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span as it was saved; nanoseconds since 1970; ``parent_id`` is empty for a root; ``error``: its status."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any] = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    error: str = ""


def write(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """One object with all spans, as an OTLP request has them."""
    return _with_hexadecimal_ids(MessageToDict(encode_spans(spans)))


def line(request: Message) -> str:
    """A request of a collector's as one line."""
    return json.dumps(_with_hexadecimal_ids(MessageToDict(request))) + "\n"


def _with_hexadecimal_ids(data: dict[str, Any]) -> dict[str, Any]:
    for _, span in _each(data):
        for part in (span, *span.get("links", [])):
            part.update({name: base64.b64decode(part[name]).hex() for name in _IDS if part.get(name)})
    return data


def read(text: str) -> list[SpanRecord]:
    """The spans of a file: one object, a list of them, or one a line. Raises ValueError in words."""
    try:
        objects = _objects(text)
        return [_record(service, span) for each in objects for service, span in _each(each)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no OTLP JSON: {error!r}") from None


def _objects(text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        return _lines(text)
    return whole if isinstance(whole, list) else [whole]


def _lines(text: str) -> list[Any]:
    """Of a file of lines, those that can be read: a receiver may have been killed while it wrote one."""
    found, wrong = [], []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found += [json.loads(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            wrong.append(f"line {number}: {error.msg}")
    if wrong and not found:
        raise ValueError(f"this is neither JSON nor JSON lines: {wrong[0]}")
    if wrong:
        log.warning("%d lines cannot be read and are left out: %s", len(wrong), wrong[0])
    return found


def _each(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Service and span."""
    for resource in data.get("resourceSpans", data.get("resource_spans", [])):
        attributes = _attributes(resource.get("resource", {}).get("attributes", []))
        for scope in resource.get("scopeSpans", resource.get("scope_spans", [])):
            for span in scope.get("spans", []):
                yield str(attributes.get("service.name", "")), span


def _record(service: str, span: dict[str, Any]) -> SpanRecord:
    events = tuple(
        SpanEvent(each.get("name", ""), int(each.get("timeUnixNano", 0)), _attributes(each.get("attributes", [])))
        for each in span.get("events", [])
    )
    status = span.get("status") or {}
    wrong = status.get("code") in (2, "STATUS_CODE_ERROR")
    return SpanRecord(
        trace_id=span["traceId"].lower(),
        span_id=span["spanId"].lower(),
        parent_id=span.get("parentSpanId", "").lower(),
        name=span["name"],
        service=service,
        start_ns=int(span["startTimeUnixNano"]),
        end_ns=int(span["endTimeUnixNano"]),
        attributes=_attributes(span.get("attributes", [])),
        events=events,
        error=(status.get("message") or "error") if wrong else "",
    )


def _attributes(items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {item["key"]: _value(item.get("value", {})) for item in items}


def _value(value: dict[str, Any]) -> Any:
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [_value(each) for each in value["arrayValue"].get("values", [])]
    return next((value[kind] for kind in ("stringValue", "boolValue", "doubleValue") if kind in value), None)
