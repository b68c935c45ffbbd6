"""How what is seen leaves a process: its spans and metrics, and how context crosses a stream.

Both are off unless the standard variables ask for them (``trace_settings``, ``metric_settings``). A bounded queue drops
spans when the collector is away; nothing else happens. It does not know what a round is.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, Span, SpanContext, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outrider import semconv, spans
from outrider.metric_settings import readers_of
from outrider.round_timings import RoundTimings
from outrider.spans import Attributes, LightSpan
from outrider.tokens import CacheMiss
from outrider.trace_settings import EXPORT_TIMEOUT_S, resource, sampler, span_exporter

_FLUSH_MS = 2_000
_propagator = TraceContextTextMapPropagator()


class Tracing:
    """Where the spans of this process go, and which requests are traced. A ``spans.Sink`` for what is to be kept."""

    sampled = True

    def __init__(self, processor: SpanProcessor | None, resource: Resource, sampler: sampling.Sampler) -> None:
        self._processor = processor
        self._resource = resource
        self._sampler = sampler

    @property
    def on(self) -> bool:
        """Whether spans go anywhere."""
        return self._processor is not None

    @property
    def resource(self) -> Resource:
        """What this process is."""
        return self._resource

    def samples(self, parent: SpanContext | None, trace_id: int, name: str) -> bool:
        """Whether a request is traced, by the sampler; ``parent`` is its caller's span."""
        if not self.on:
            return False
        context = trace.set_span_in_context(NonRecordingSpan(parent)) if parent is not None else Context()
        decision = self._sampler.should_sample(context, trace_id, name).decision
        return decision is sampling.Decision.RECORD_AND_SAMPLE

    def ended(self, span: LightSpan) -> None:
        """A span that is to be kept leaves."""
        if self._processor is not None:
            self._processor.on_end(span.readable(self._resource))

    def flush(self) -> None:
        """Give the last spans a bounded time to leave."""
        if self._processor is not None:
            self._processor.force_flush(_FLUSH_MS)

    def close(self) -> None:
        """Send what is left, and nothing from then on."""
        if self._processor is not None:
            self._processor.shutdown()
            self._processor = None


_OFF = Tracing(None, Resource.get_empty(), sampling.ALWAYS_OFF)
_tracing = _OFF


def tracing() -> Tracing:
    """Of this process; off until ``start`` or ``install``."""
    return _tracing


def install(processor: SpanProcessor | None, sampler: sampling.Sampler = sampling.DEFAULT_ON, **resource: str) -> None:
    """Trace from now on, or not any more with None."""
    global _tracing
    _tracing = Tracing(processor, Resource.create(dict(resource)), sampler) if processor is not None else _OFF


def inject(span: Span) -> str:
    """W3C traceparent of a span that peers are to continue, or an empty string."""
    context = span.get_span_context()
    if not context.trace_flags.sampled:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


def extract(traceparent: str) -> SpanContext | None:
    """A peer's span; None when the text is empty or malformed."""
    if not traceparent:
        return None
    context = trace.get_current_span(_propagator.extract({"traceparent": traceparent}, Context())).get_span_context()
    return context if context.is_valid else None


def from_metadata(metadata: Iterable[tuple[str, Any]]) -> SpanContext | None:
    """The span that a client sent with its call."""
    return extract(next((str(value) for key, value in metadata or () if key == "traceparent"), ""))


def serving(traceparent: str, name: str, attributes: Attributes) -> Span:
    """The span of what a peer asked for; nothing when it is not traced there, or here."""
    parent = extract(traceparent) if _tracing.on else None
    if parent is None or not parent.trace_flags.sampled:
        return INVALID_SPAN
    return LightSpan(_tracing, name, parent, SpanKind.SERVER, attributes)


def forward_pass(name: str, start_ns: int, end_ns: int, attributes: Attributes, served: tuple[Any, ...]) -> None:
    """A pass as a trace of its own, linked to the rounds that it served."""
    span = LightSpan(_tracing, name, spans.new_trace_id(), attributes=attributes, start_ns=start_ns)
    for context in spans.links(served):
        span.add_link(context)
    span.end(end_ns)


def outcome_attributes(outcome: Any) -> dict[str, int | bool]:
    """Attributes of a round that a replica has answered (``inference.job.Outcome``)."""
    return {
        semconv.CACHE_MISS: isinstance(outcome.result, CacheMiss),
        semconv.CACHED_LEN: outcome.cached_len,
        **timing_attributes(outcome.timings),
    }


def timing_attributes(timings: RoundTimings) -> dict[str, int | bool]:
    """Attributes of where a replica spent a round."""
    return {
        semconv.QUEUE_US: timings.queue_us,
        semconv.FORWARD_US: timings.forward_us,
        semconv.PASSES: timings.passes,
        semconv.BATCH_ROWS: timings.batch_rows,
    }


def start(service: str, environment: Mapping[str, str]) -> None:
    """Install the exporters that the environment asks for, if any. Call once per process. Raises ValueError and
    OSError."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    this = resource(service)
    exporter, chosen, readers = span_exporter(environment), sampler(environment), readers_of(environment)
    if exporter is not None:
        global _tracing
        processor = BatchSpanProcessor(exporter, export_timeout_millis=EXPORT_TIMEOUT_S * 1000)
        _tracing = Tracing(processor, this, chosen)
    if readers:
        metrics.set_meter_provider(MeterProvider(readers, this, shutdown_on_exit=False))


def flush() -> None:
    """Give the last spans and metrics a bounded time to leave."""
    _tracing.flush()
    provider = metrics.get_meter_provider()
    if isinstance(provider, MeterProvider):
        provider.force_flush(_FLUSH_MS)
