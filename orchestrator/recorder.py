"""The spans of the last requests: kept here for a while, and exported where the request is sampled, slow or failed.

It knows spans and when a request has ended, not what a request is.
"""

import contextlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from opentelemetry.trace import INVALID_SPAN, Span, SpanContext, SpanKind

from outrider import semconv, spans, telemetry
from outrider.spans import LightSpan

_NEEDED = (semconv.SPAN_GENERATE, semconv.SPAN_QUEUE, semconv.SPAN_PROMPT, semconv.SPAN_PREFILL)


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
        if self.recorder.take(span, needed=span.name in _NEEDED):
            self.kept.append(span)
        else:
            self.left_out += 1
        if self.sampled:
            telemetry.tracing().ended(span)

    @property
    def spans(self) -> list[LightSpan]:
        """All that is known: those that have ended, unless what they are below was left out, and the request's own."""
        running = [self.root] if isinstance(self.root, LightSpan) and not self.over else []
        there = {id(span) for span in (*self.kept, *running)}
        kept = [span for span in self.kept if span.above is None or id(span.above) in there]
        return [*(each for span in kept for each in span.whole()), *running]


class Recorder:
    """Owner of the last requests. ``held``: spans of all of them."""

    def __init__(self, keeping: Keeping) -> None:
        self._keeping = keeping
        self._running: dict[int, RequestTrace] = {}
        self._over: OrderedDict[int, RequestTrace] = OrderedDict()
        self._leaving = ThreadPoolExecutor(1, "export of kept requests")
        self.held = 0

    def begin(self, parent: SpanContext | None) -> RequestTrace:
        """A request has come; ``parent`` is its caller's span."""
        tracing = telemetry.tracing()
        trace_id = parent.trace_id if parent is not None else spans.new_trace_id()
        trace = RequestTrace(self, tracing.samples(parent, trace_id, semconv.SPAN_GENERATE), trace_id)
        if self._keeping.requests or tracing.on:
            trace.root = LightSpan(trace, semconv.SPAN_GENERATE, parent or trace_id, SpanKind.SERVER)
            self._running[id(trace)] = trace
        return trace

    def end(self, trace: RequestTrace, keep: bool) -> None:
        """A request is over. ``keep``: it is exported although it was not sampled, beside the event loop: its spans may
        be many."""
        trace.over = True
        if keep and not trace.sampled and telemetry.tracing().on:
            leaving = trace.spans
            for span in leaving:
                span.settle()
            with contextlib.suppress(RuntimeError):  # the process ends
                self._leaving.submit(_export, leaving)
        if self._running.pop(id(trace), None) is not None:
            self._remember(trace)

    def _remember(self, trace: RequestTrace) -> None:
        """One that never got a session cannot be asked for: it takes nobody's place."""
        if not trace.session_id:
            self.held -= sum(span.size for span in trace.kept)
            return
        self._over[id(trace)] = trace
        while len(self._over) > self._keeping.requests:
            self._forget_oldest()

    def take(self, span: LightSpan, needed: bool) -> bool:
        """Whether another span, and what was noted in it, can be held; older requests give way. One that is ``needed``
        can be: each request has few of them."""
        while self.held >= self._keeping.spans and self._over:
            self._forget_oldest()
        if self.held >= self._keeping.spans and not needed:
            return False
        self.held += span.size
        return True

    def _forget_oldest(self) -> None:
        _, trace = self._over.popitem(last=False)
        self.held -= sum(span.size for span in trace.kept)

    def recent(self, tenant: str) -> list[RequestTrace]:
        """The requests of a tenant: those that run, the last one first, then the others."""
        known = (*reversed(self._running.values()), *reversed(self._over.values()))
        return [trace for trace in known if trace.tenant == tenant and trace.session_id]

    def find(self, tenant: str, name: str) -> RequestTrace | None:
        """The last request of a tenant that has this trace id, or is of this session."""
        return next((t for t in self.recent(tenant) if name in (t.session_id, f"{t.trace_id:032x}")), None)

    def close(self) -> None:
        """Return when all that is to be exported has left."""
        self._leaving.shutdown()


def _export(kept: list[LightSpan]) -> None:
    for span in kept:
        telemetry.tracing().ended(span)
