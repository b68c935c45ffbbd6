"""The spans of the last requests: kept here for a while, and exported where the request is sampled, slow or failed.

It knows spans and when a request has ended, not what a request is.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from opentelemetry.trace import INVALID_SPAN, Span, SpanContext, SpanKind

from outrider import semconv, spans, telemetry
from outrider.spans import LightSpan


@dataclass(frozen=True, slots=True)
class Keeping:
    """Most requests that are remembered, and most spans of all of them together. With 0 requests, nothing is recorded
    that is not exported."""

    requests: int = 128
    spans: int = 30_000


@dataclass(slots=True, eq=False)
class RequestTrace:
    """The spans of one request that have ended; a ``spans.Sink``. ``left_out`` were not kept, for want of room;
    ``sampled``: they are exported as they end."""

    recorder: "Recorder"
    sampled: bool
    trace_id: int
    tenant: str = ""
    session_id: str = ""
    root: Span = INVALID_SPAN
    over: bool = False
    left_out: int = 0
    kept: list[LightSpan] = field(default_factory=list)

    def ended(self, span: LightSpan) -> None:
        """A span has ended."""
        if self.recorder.has_room():
            self.kept.append(span)
            self.recorder.held += 1
        else:
            self.left_out += 1
        if self.sampled:
            telemetry.tracing().ended(span)

    @property
    def spans(self) -> list[LightSpan]:
        """All that is known: those that have ended, and the request's own."""
        ended = [each for span in self.kept for each in (*span.noted(), span)]
        return [*ended, self.root] if isinstance(self.root, LightSpan) and not self.over else ended


class Recorder:
    """Owner of the last requests. ``held``: spans of all of them."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self._traces: OrderedDict[int, RequestTrace] = OrderedDict()
        self.held = 0

    def begin(self, parent: SpanContext | None) -> RequestTrace:
        """A request has come; ``parent`` is its caller's span."""
        tracing = telemetry.tracing()
        trace_id = parent.trace_id if parent is not None else spans.new_trace_id()
        trace = RequestTrace(self, tracing.samples(parent, trace_id, semconv.SPAN_GENERATE), trace_id)
        if self._keeping.requests or tracing.on:
            trace.root = LightSpan(trace, semconv.SPAN_GENERATE, parent or trace_id, SpanKind.SERVER)
            self._traces[id(trace)] = trace
        return trace

    def end(self, trace: RequestTrace, keep: bool) -> None:
        """A request is over. ``keep``: it is exported although it was not sampled."""
        trace.over = True
        if keep and not trace.sampled:
            for span in trace.spans:
                telemetry.tracing().ended(span)
        over = [each for each in self._traces.values() if each.over]
        for each in over[: max(0, len(over) - self._keeping.requests)]:
            self._forget(each)

    def has_room(self) -> bool:
        """Whether another span can be held; older requests give way."""
        while self.held >= self._keeping.spans:
            oldest = next((each for each in self._traces.values() if each.over), None)
            if oldest is None:
                return False
            self._forget(oldest)
        return True

    def _forget(self, trace: RequestTrace) -> None:
        self._traces.pop(id(trace), None)
        self.held -= len(trace.kept)

    def recent(self, tenant: str) -> list[RequestTrace]:
        """The requests of a tenant, the last one first."""
        return [trace for trace in reversed(self._traces.values()) if trace.tenant == tenant and trace.session_id]

    def find(self, tenant: str, name: str) -> RequestTrace | None:
        """The last request of a tenant that has this trace id, or is of this session."""
        return next((t for t in self.recent(tenant) if name in (t.session_id, f"{t.trace_id:032x}")), None)
