"""How what is seen leaves a process: which exporters, which requests are traced, and how context crosses a stream.

Tracing is off unless the standard variables ask for it (OTEL_TRACES_EXPORTER=otlp or console, or an
OTEL_EXPORTER_OTLP_ENDPOINT), and OTEL_TRACES_SAMPLER says which requests. A bounded queue drops spans when the
collector is away; nothing else happens. Metrics go where OTEL_METRICS_EXPORTER says (otlp, prometheus, console, or
several with commas; off by default). It does not know what a round is.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, Span, SpanContext, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outrider import semconv, spans
from outrider.instruments import Instrument, histogram_points, observe
from outrider.round_timings import RoundTimings
from outrider.spans import Attributes, LightSpan
from outrider.tokens import CacheMiss

_EXPORT_TIMEOUT_S = 2
_FLUSH_MS = 2_000
_propagator = TraceContextTextMapPropagator()
_instruments: list[Instrument] = []


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


def _refuse_http(environment: Mapping[str, str], kind: str) -> None:
    """Only OTLP over gRPC is built in."""
    for variable in (f"OTEL_EXPORTER_OTLP_{kind}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if environment.get(variable, "grpc") != "grpc":
            raise ValueError(f"{variable}={environment[variable]!r}: must be grpc")


def _exporter(environment: Mapping[str, str]) -> SpanExporter | None:
    chosen = environment.get("OTEL_TRACES_EXPORTER", "")
    endpoint = any(environment.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_"))
    if chosen == "console":
        return ConsoleSpanExporter()
    if chosen == "otlp" or (not chosen and endpoint):
        _refuse_http(environment, "TRACES")
        from outrider import exporting

        exporting.quiet()
        return exporting.SpanExporter(timeout=_EXPORT_TIMEOUT_S)
    if chosen not in ("", "none"):
        raise ValueError(f"OTEL_TRACES_EXPORTER={chosen!r}: must be otlp, console or none")
    return None


_SAMPLERS = {
    "always_on": lambda rate: sampling.ALWAYS_ON,
    "always_off": lambda rate: sampling.ALWAYS_OFF,
    "traceidratio": sampling.TraceIdRatioBased,
    "parentbased_always_on": lambda rate: sampling.DEFAULT_ON,
    "parentbased_always_off": lambda rate: sampling.DEFAULT_OFF,
    "parentbased_traceidratio": sampling.ParentBasedTraceIdRatio,
}


def _sampler(environment: Mapping[str, str]) -> sampling.Sampler:
    name = environment.get("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    if name not in _SAMPLERS:
        raise ValueError(f"OTEL_TRACES_SAMPLER={name!r}: must be one of {', '.join(_SAMPLERS)}")
    text = environment.get("OTEL_TRACES_SAMPLER_ARG", "1")
    try:
        return _SAMPLERS[name](float(text))
    except ValueError:
        raise ValueError(f"OTEL_TRACES_SAMPLER_ARG={text!r}: must be a number from 0 to 1") from None


def _with_histograms(data: MetricsData | None) -> MetricsData | None:
    """What the SDK has read, and our histograms."""
    made = histogram_points(_instruments)
    if data is None or not made:
        return data
    first = data.resource_metrics[0]
    ours = ResourceMetrics(first.resource, [ScopeMetrics(spans.SCOPE, made, "")], first.schema_url)
    return MetricsData([*data.resource_metrics, ours])


class _Periodic(PeriodicExportingMetricReader):
    def _receive_metrics(self, metrics_data: Any, timeout_millis: float = 10_000, **rest: Any) -> None:
        merged: Any = _with_histograms(metrics_data)
        super()._receive_metrics(merged, timeout_millis, **rest)


def _pushing(exporter: MetricExporter) -> MetricReader:
    return _Periodic(exporter, export_timeout_millis=_EXPORT_TIMEOUT_S * 1000)


def _prometheus(environment: Mapping[str, str]) -> MetricReader:
    """Serve /metrics on the standard variables' address. Raises OSError naming it when it is taken."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from prometheus_client import start_http_server

    class Reader(PrometheusMetricReader):
        def _receive_metrics(self, metrics_data: Any, timeout_millis: float = 10_000, **rest: Any) -> None:
            merged: Any = _with_histograms(metrics_data)
            super()._receive_metrics(merged, timeout_millis, **rest)

    host = environment.get("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost")
    text = environment.get("OTEL_EXPORTER_PROMETHEUS_PORT", "9464")
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f"OTEL_EXPORTER_PROMETHEUS_PORT={text!r}: must be 1 to 65535")
    reader = Reader(scope_info_enabled=False)
    try:
        start_http_server(int(text), host)
    except OSError as error:
        raise OSError(f"cannot serve metrics on {host}:{text}: {error}") from error
    return reader


def _readers(environment: Mapping[str, str]) -> list[MetricReader]:
    readers: list[MetricReader] = []
    for chosen in environment.get("OTEL_METRICS_EXPORTER", "none").split(","):
        if chosen.strip() == "console":
            readers.append(_pushing(ConsoleMetricExporter()))
        elif chosen.strip() == "prometheus":
            readers.append(_prometheus(environment))
        elif chosen.strip() == "otlp":
            _refuse_http(environment, "METRICS")
            from outrider import exporting

            exporting.quiet()
            readers.append(_pushing(exporting.MetricExporter(timeout=_EXPORT_TIMEOUT_S)))
        elif chosen.strip() not in ("", "none"):
            raise ValueError(f"OTEL_METRICS_EXPORTER={chosen!r}: must be otlp, prometheus, console or none")
    return readers


def _resource(service: str) -> Resource:
    """What this process is; the standard variables may call it otherwise."""
    found = Resource.create()
    named = not str(found.attributes["service.name"]).startswith("unknown_service")
    return found if named else found.merge(Resource({"service.name": f"outrider-{service}"}))


def start(service: str, environment: Mapping[str, str]) -> None:
    """Install the exporters that the environment asks for, if any. Call once per process. Raises ValueError and
    OSError."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    resource = _resource(service)
    exporter, sampler, readers = _exporter(environment), _sampler(environment), _readers(environment)
    if exporter is not None:
        global _tracing
        processor = BatchSpanProcessor(exporter, export_timeout_millis=_EXPORT_TIMEOUT_S * 1000)
        _tracing = Tracing(processor, resource, sampler)
    if readers:
        metrics.set_meter_provider(MeterProvider(readers, resource, shutdown_on_exit=False))


def export(instruments: Iterable[Instrument]) -> None:
    """Have these read, from other threads, whenever metrics are exported."""
    chosen = list(instruments)
    observe(metrics.get_meter("outrider"), chosen)
    _instruments.extend(chosen)


def flush() -> None:
    """Give the last spans and metrics a bounded time to leave."""
    _tracing.flush()
    provider = metrics.get_meter_provider()
    if isinstance(provider, MeterProvider):
        provider.force_flush(_FLUSH_MS)
