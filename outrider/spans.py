"""Spans that cost a few microseconds: begun and described at once, made into OpenTelemetry's own when they are kept.

A span of the SDK takes 20 to 35 us here, one that nobody samples 5, and a round has three; these take 2 to 5. They are
OpenTelemetry spans (``opentelemetry.trace.Span``) and leave through its processors and exporters. What describes one
may be left until somebody wants it (``later``), so a request whose spans are thrown away pays for the values only. It
knows names, times and attributes, not what a round is; who keeps a request's spans is told by its ``Sink``.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from outrider import semconv

SCOPE = InstrumentationScope("outrider")
_SAMPLED, _NOT = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)
_MAX_LINKS = 128
_random = random.Random()
Attributes = Mapping[str, Any]


class Sink(Protocol):
    """Where the spans of a request, or of a process, go when they end. ``sampled``: whether peers are to trace too."""

    @property
    def sampled(self) -> bool:
        """Whether a peer that is called should make spans as well."""

    def ended(self, span: "LightSpan") -> None:
        """A span has ended."""


class LightSpan(Span):
    """A span until it is thrown away, or made into the SDK's. Not for two threads at once."""

    __slots__ = ("_attributes", "_later", "_sink", "about", "context", "end_ns", "events", "kind", "links", "name",
                 "parent", "start_ns", "status")  # fmt: skip

    def __init__(
        self,
        sink: Sink,
        name: str,
        trace_id: int,
        parent: SpanContext | None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        start_ns: int | None = None,
    ) -> None:
        self._sink = sink
        self.name = name
        self.about: Any = None
        self.kind = kind
        self.parent = parent
        flags = _SAMPLED if sink.sampled else _NOT
        self.context = SpanContext(trace_id, _random.getrandbits(64) or 1, False, flags)
        self._attributes: dict[str, Any] = dict(attributes) if attributes else {}
        self._later: list[tuple[Callable[..., Attributes], tuple[Any, ...]]] = []
        self.events: list[Event] = []
        self.links: list[Link] = []
        self.status = Status()
        self.start_ns = start_ns or time.time_ns()
        self.end_ns = 0

    def child(self, name: str, kind: SpanKind, attributes: Attributes | None = None) -> "LightSpan":
        """A span below this one, with the same sink."""
        return LightSpan(self._sink, name, self.context.trace_id, self.context, kind, attributes)

    @property
    def attributes(self) -> dict[str, Any]:
        """All of them, those that were left for later worked out."""
        for describe, values in self._later:
            self._attributes.update(describe(*values))
        self._later.clear()
        return self._attributes

    def later(self, describe: Callable[..., Attributes], *values: Any) -> None:
        """Attributes that are worked out when the span is kept."""
        if not self.end_ns:
            self._later.append((describe, values))

    def get_span_context(self) -> SpanContext:
        """Its ids."""
        return self.context

    def is_recording(self) -> bool:
        """Whether it has not ended."""
        return not self.end_ns

    def set_attribute(self, key: str, value: Any) -> None:
        """Set one attribute, until the end."""
        if not self.end_ns:
            self._attributes[key] = value

    def set_attributes(self, attributes: Attributes) -> None:
        """Set some attributes, until the end."""
        if not self.end_ns:
            self._attributes.update(attributes)

    def add_event(self, name: str, attributes: Attributes | None = None, timestamp: int | None = None) -> None:
        """Something that happened within it."""
        if not self.end_ns:
            self.events.append(Event(name, attributes, timestamp))

    def add_link(self, context: SpanContext, attributes: Attributes | None = None) -> None:
        """Another span that has to do with it; OpenTelemetry's limit holds."""
        if not self.end_ns and len(self.links) < _MAX_LINKS:
            self.links.append(Link(context, attributes))

    def update_name(self, name: str) -> None:
        """Rename it."""
        self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """How it went."""
        if not self.end_ns:
            self.status = status if isinstance(status, Status) else Status(status, description)

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        """An error within it, as an event without a stack trace."""
        self.add_event("exception", {"exception.type": type(exception).__name__, "exception.message": str(exception)})

    def end(self, end_time: int | None = None) -> None:
        """End it, once, and hand it over."""
        if not self.end_ns:
            self.end_ns = end_time or time.time_ns()
            self._sink.ended(self)

    def readable(self, resource: Resource, more: Attributes | None = None) -> ReadableSpan:
        """The SDK's form, marked as sampled: it is kept. ``more``: attributes that only this copy has."""
        context = SpanContext(self.context.trace_id, self.context.span_id, False, _SAMPLED)
        attributes, end_ns = {**self.attributes, **(more or {})}, self.end_ns or time.time_ns()
        return ReadableSpan(
            self.name, context, self.parent, resource, attributes, self.events, self.links, self.kind,
            instrumentation_scope=SCOPE, status=self.status, start_time=self.start_ns, end_time=end_ns,
        )  # fmt: skip


def new_trace_id() -> int:
    """A random one."""
    return _random.getrandbits(128) or 1


def child(parent: Span, name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes | None = None) -> Span:
    """A span below another one; nothing below one that nobody records."""
    return parent.child(name, kind, attributes) if isinstance(parent, LightSpan) else INVALID_SPAN


def later(span: Span, describe: Callable[..., Attributes], *values: Any) -> None:
    """Attributes of a span that are worked out when it is kept."""
    if isinstance(span, LightSpan):
        span.later(describe, *values)


def about(span: Span, subject: Any) -> None:
    """What a span is about, for whoever has it in this process. It is not exported."""
    if isinstance(span, LightSpan):
        span.about = subject


def links(contexts: Iterable[Any]) -> Sequence[SpanContext]:
    """Of the traces that a forward pass served, those that there are; OpenTelemetry's limit holds."""
    return [context for context in contexts if isinstance(context, SpanContext)][:_MAX_LINKS]


@contextlib.contextmanager
def ending(span: Span) -> Iterator[Span]:
    """End a span when the block ends; an error is recorded on it, a cancellation is a normal end."""
    try:
        yield span
    except Exception as error:
        span.set_attribute(semconv.ERROR_TYPE, type(error).__name__)
        span.set_status(StatusCode.ERROR, str(error))
        raise
    finally:
        span.end()
