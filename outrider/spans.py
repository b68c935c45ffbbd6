"""Spans that cost a few microseconds: begun and described at once, made into OpenTelemetry's own when they are kept.

A span of the SDK takes 20 to 35 us here, one that nobody samples 5, and a round has three; these take 2 to 5. They are
OpenTelemetry spans (``opentelemetry.trace.Span``) and leave through its processors and exporters. What describes one
may be left until somebody wants it (``describe``), so a request whose spans are thrown away pays for the values only.
It knows names, times and attributes, not what a round is; who keeps a request's spans is told by its ``Sink``.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from outrider import semconv

SCOPE = InstrumentationScope("outrider")
_SAMPLED, _NOT = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)
_UNSET = Status()
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
    """A span until it is thrown away, or made into the SDK's. Not for two threads at once. Ids are made when somebody
    needs them. As a context manager it ends with its block: an error is recorded, a cancellation is a normal
    end."""

    __slots__ = ("_about", "_attributes", "_context", "_describe", "_notes", "_parent", "_sink", "_values", "end_ns",
                 "events", "kind", "links", "name", "start_ns", "status")  # fmt: skip

    def __init__(
        self,
        sink: Sink,
        name: str,
        parent: "LightSpan | SpanContext | int",
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        start_ns: int = 0,
    ) -> None:
        """``parent``: a span of this process or of a peer's, or the trace id of a span that has none."""
        self._sink = sink
        self.name = name
        self._parent = parent
        self.kind = kind
        self._attributes = attributes
        self._context: SpanContext | None = None
        self._describe: Callable[..., Attributes] | None = None
        self._about: Any = None
        self.events: Sequence[Event] = ()
        self.links: Sequence[Link] = ()
        self._notes: list[Any] | None = None  # tuples, and spans of those that somebody wanted
        self.status = _UNSET
        self.end_ns = 0
        self.start_ns = start_ns or time.time_ns()

    def child(self, name: str, kind: SpanKind, attributes: Attributes | None = None, start_ns: int = 0) -> "LightSpan":
        """A span below this one, with the same sink."""
        return LightSpan(self._sink, name, self, kind, attributes, start_ns)

    @property
    def sampled(self) -> bool:
        """Whether peers are asked to trace as well."""
        return self._sink.sampled

    def note(self, name: str, kind: SpanKind, start_ns: int, end_ns: int, *description: Any) -> None:
        """A span below this one that has ended, of which only this is kept: cheaper than a span that nobody wants.

        ``description``: what ``describe`` would be told.
        """
        if self._notes is None:
            self._notes = []
        self._notes.append((name, kind, start_ns, end_ns, *description))

    @property
    def above(self) -> "LightSpan | None":
        """The span of this process that it is below."""
        return self._parent if isinstance(self._parent, LightSpan) else None

    def settle(self) -> None:
        """Make its ids, before another thread asks for them."""
        assert self.context

    @property
    def size(self) -> int:
        """How many spans it is with those that were noted by now. It does not grow when it has ended, but for a rare
        one."""
        return 1 + len(self._notes or ())

    def whole(self) -> "list[LightSpan]":
        """What was noted in it, and itself."""
        return [*self.noted(), self]

    def noted(self) -> "list[LightSpan]":
        """The spans that were noted, the same ones every time."""
        notes = self._notes or []
        notes[:] = [note if isinstance(note, LightSpan) else self._made(*note) for note in notes]
        return list(notes)

    def _made(self, name: str, kind: SpanKind, start_ns: int, end_ns: int, *description: Any) -> "LightSpan":
        made = LightSpan(self._sink, name, self, kind, start_ns=start_ns)
        made.describe(*description)
        made.end_ns = end_ns
        return made

    @property
    def parent(self) -> SpanContext | None:
        """The span that it is below."""
        if isinstance(self._parent, int):
            return None
        return self._parent.context if isinstance(self._parent, LightSpan) else self._parent

    @property
    def context(self) -> SpanContext:
        """Its ids."""
        if self._context is None:
            parent = self.parent
            trace_id = parent.trace_id if parent is not None else self._parent
            assert isinstance(trace_id, int)
            flags = _SAMPLED if self._sink.sampled else _NOT
            self._context = SpanContext(trace_id, _random.getrandbits(64) or 1, False, flags)
        return self._context

    @property
    def attributes(self) -> dict[str, Any]:
        """All of them, those that were left for later worked out."""
        deferred = self._describe(self._about, *self._values) if self._describe is not None else {}
        return {**(self._attributes or {}), **deferred}

    @property
    def about(self) -> Any:
        """What ``describe`` was told that it is about. It is not exported."""
        return self._about

    def describe(self, describe: Callable[..., Attributes], about: Any, *values: Any) -> None:
        """Attributes that are worked out when the span is kept, from values that do not change any more by then."""
        if not self.end_ns:
            self._describe, self._about, self._values = describe, about, values

    def get_span_context(self) -> SpanContext:
        """Its ids."""
        return self.context

    def is_recording(self) -> bool:
        """Whether it has not ended."""
        return not self.end_ns

    def set_attribute(self, key: str, value: Any) -> None:
        """Set one attribute, until the end."""
        self.set_attributes({key: value})

    def set_attributes(self, attributes: Attributes) -> None:
        """Set some attributes, until the end."""
        if not self.end_ns:
            self._attributes = {**(self._attributes or {}), **attributes}

    def add_event(self, name: str, attributes: Attributes | None = None, timestamp: int | None = None) -> None:
        """Something that happened within it."""
        if not self.end_ns:
            self.events = [*self.events, Event(name, attributes, timestamp)]

    def add_link(self, context: SpanContext, attributes: Attributes | None = None) -> None:
        """Another span that has to do with it; OpenTelemetry's limit holds."""
        if not self.end_ns and len(self.links) < _MAX_LINKS:
            self.links = (*self.links, Link(context, attributes))

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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            self.set_attribute(semconv.ERROR_TYPE, type(error).__name__)
            self.set_status(StatusCode.ERROR, str(error))
        self.end()

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


def describe(span: Span, describe: Callable[..., Attributes], about: Any, *values: Any) -> None:
    """As ``LightSpan.describe``; nothing for a span that nobody records."""
    if isinstance(span, LightSpan):
        span.describe(describe, about, *values)


def links(contexts: Iterable[Any]) -> Sequence[SpanContext]:
    """Of the traces that a forward pass served, those that there are; OpenTelemetry's limit holds."""
    return [context for context in contexts if isinstance(context, SpanContext)][:_MAX_LINKS]
