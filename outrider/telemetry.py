"""Traces and counters: their names, how context crosses a stream, and how both are set up.

Tracing is off unless the standard variables ask for it (OTEL_TRACES_EXPORTER=otlp or console, or an
OTEL_EXPORTER_OTLP_ENDPOINT). A bounded queue drops spans when the collector is away; nothing else happens.
Counters go where OTEL_METRICS_EXPORTER says (otlp or console; off by default). It does not know what a round is.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Link, Span, SpanContext, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from outrider.round_timings import RoundTimings
from outrider.tokens import CacheMiss

SPAN_GENERATE = "generate"
SPAN_ROUND = "round"
SPAN_PROPOSE_CLIENT = "draft.propose"
SPAN_VERIFY_CLIENT = "target.verify"
SPAN_LOOK_AHEAD_CLIENT = "draft.prepare"
SPAN_PROPOSE_SERVER = "draft.serve"
SPAN_LOOK_AHEAD_SERVER = "draft.look_ahead"
SPAN_VERIFY_SERVER = "target.serve"
SPAN_DRAFT_FORWARD = "draft.forward"
SPAN_TARGET_FORWARD = "target.forward"

SESSION_ID = "outrider.session.id"
ROUND = "outrider.round"
PROPOSED = "outrider.round.proposed"
ACCEPTED = "outrider.round.accepted"
EMITTED = "outrider.round.emitted"
NEXT_TOKEN_KIND = "outrider.round.next_token_kind"
DRAFTER = "outrider.round.drafter"
PREPARED = "outrider.round.prepared"
RUN_FIRST = "outrider.run.first_round"
RUN = "outrider.plan.run"
BREAKS_OFF = "outrider.plan.breaks_off"
PROBE = "outrider.plan.probe"
LOOK_AHEAD = "outrider.plan.look_ahead"
OUTCOMES = "outrider.look_ahead.outcomes"
CONTINUATIONS = "outrider.look_ahead.continuations"
TAKEN_UP = "outrider.look_ahead.taken_up"
ARRIVED = "outrider.look_ahead.arrived"
FANOUT = "outrider.plan.fanout"
LOOK_AHEAD_HIT = "outrider.round.look_ahead_hit"
RATE_CHOSEN = "outrider.estimate.tokens_per_s"
RATE_PLAIN = "outrider.estimate.plain_tokens_per_s"
ACCEPTANCE = "outrider.estimate.acceptance"
HIT_RATE = "outrider.estimate.hit_rate"
DRAFT_S = "outrider.estimate.draft_token_s"
VERIFY_S = "outrider.estimate.verify_s"
RTT_DRAFT_S = "outrider.estimate.draft_round_trip_s"
RTT_TARGET_S = "outrider.estimate.target_round_trip_s"
PREFIX_LEN = "outrider.prefix_len"
CACHE_MISS = "outrider.cache_miss"
CACHED_LEN = "outrider.cached_len"
QUEUE_US = "outrider.queue_us"
FORWARD_US = "outrider.forward_us"
PASSES = "outrider.passes"
BYTES_SENT = "outrider.bytes_sent"
BYTES_RECEIVED = "outrider.bytes_received"
NETWORK_US = "outrider.network_us"
BATCH_ROWS = "outrider.batch.rows"
BATCH_ROUNDS = "outrider.batch.rounds"
REQUEST_ROUNDS = "outrider.request.rounds"
REQUEST_PROPOSED = "outrider.request.proposed"
REQUEST_ACCEPTED = "outrider.request.accepted"
DRAFT_FAULT = "outrider.draft_fault"
OPERATION = "gen_ai.operation.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
FINISH_REASONS = "gen_ai.response.finish_reasons"
ERROR_TYPE = "error.type"

PREFIX_CACHE_QUERIES = "outrider.prefix_cache.queries"
PREFIX_CACHE_HITS = "outrider.prefix_cache.hits"
EVICTIONS = "outrider.kv_cache.evictions"

_MAX_LINKS = 128
_EXPORT_TIMEOUT_S = 2
_FLUSH_MS = 2_000
_propagator = TraceContextTextMapPropagator()


_tracer = trace.get_tracer("outrider")


def tracer() -> trace.Tracer:
    """The tracer of this process; a no-op one until ``start`` installs a provider."""
    return _tracer


def child_of(span: Span) -> Context:
    """Context whose current span is ``span``. Contexts are passed by hand: none stays open across a yield."""
    return trace.set_span_in_context(span)


def inject(span: Span) -> str:
    """W3C traceparent of a sampled span, or an empty string."""
    if not span.get_span_context().trace_flags.sampled:
        return ""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, child_of(span))
    return carrier.get("traceparent", "")


def extract(traceparent: str) -> Context:
    """Context of a peer's span; an empty one when the text is empty or malformed."""
    return _propagator.extract({"traceparent": traceparent} if traceparent else {}, Context())


def from_metadata(metadata: Iterable[tuple[str, Any]]) -> Context:
    """Context that a client sent with its call."""
    return extract(next((str(value) for key, value in metadata or () if key == "traceparent"), ""))


def links(contexts: tuple[Any, ...]) -> list[Link]:
    """Links to the rounds that a forward pass served; the limit of OpenTelemetry applies."""
    return [Link(context) for context in contexts[:_MAX_LINKS] if isinstance(context, SpanContext)]


@contextlib.contextmanager
def ending(span: Span) -> Iterator[None]:
    """End a span when the block ends; an error is recorded on it, a cancellation is a normal end."""
    try:
        yield
    except Exception as error:
        span.set_attribute(ERROR_TYPE, type(error).__name__)
        span.set_status(StatusCode.ERROR, str(error))
        raise
    finally:
        span.end()


def outcome_attributes(outcome: Any) -> dict[str, int | bool]:
    """Attributes of a round that a replica has answered (``inference.job.Outcome``)."""
    return {
        CACHE_MISS: isinstance(outcome.result, CacheMiss),
        CACHED_LEN: outcome.cached_len,
        **timing_attributes(outcome.timings),
    }


def timing_attributes(timings: RoundTimings) -> dict[str, int | bool]:
    """Attributes of where a replica spent a round."""
    return {
        QUEUE_US: timings.queue_us,
        FORWARD_US: timings.forward_us,
        PASSES: timings.passes,
        BATCH_ROWS: timings.batch_rows,
    }


def _exporter(environment: Mapping[str, str]) -> SpanExporter | None:
    chosen = environment.get("OTEL_TRACES_EXPORTER", "")
    endpoint = any(environment.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_"))
    if chosen == "console":
        return ConsoleSpanExporter()
    if chosen == "otlp" or (not chosen and endpoint):
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(timeout=_EXPORT_TIMEOUT_S)
    if chosen not in ("", "none"):
        raise ValueError(f"OTEL_TRACES_EXPORTER={chosen!r}: must be otlp, console or none")
    return None


def _metric_exporter(environment: Mapping[str, str]) -> MetricExporter | None:
    chosen = environment.get("OTEL_METRICS_EXPORTER", "none")
    if chosen == "console":
        return ConsoleMetricExporter()
    if chosen == "otlp":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

        return OTLPMetricExporter(timeout=_EXPORT_TIMEOUT_S)
    if chosen not in ("", "none"):
        raise ValueError(f"OTEL_METRICS_EXPORTER={chosen!r}: must be otlp, console or none")
    return None


def start(service: str, environment: Mapping[str, str]) -> None:
    """Install the exporters that the environment asks for, if any. Call once per process."""
    resource = Resource.create({"service.name": f"outrider-{service}"})
    exporter, metric_exporter = _exporter(environment), _metric_exporter(environment)
    if exporter is not None:
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(exporter, export_timeout_millis=_EXPORT_TIMEOUT_S * 1000))
        trace.set_tracer_provider(provider)
    if metric_exporter is not None:
        reader = PeriodicExportingMetricReader(metric_exporter, export_timeout_millis=_EXPORT_TIMEOUT_S * 1000)
        metrics.set_meter_provider(MeterProvider([reader], resource, shutdown_on_exit=False))


def count(name: str, unit: str, description: str, read: Callable[[], int]) -> None:
    """Export a number that only grows; ``read`` is called, from another thread, whenever one is exported."""

    def observe(options: Any) -> list[metrics.Observation]:
        return [metrics.Observation(read())]

    metrics.get_meter("outrider").create_observable_counter(name, [observe], unit, description)


def flush() -> None:
    """Give the last spans and counters a bounded time to leave."""
    for provider in (trace.get_tracer_provider(), metrics.get_meter_provider()):
        if isinstance(provider, TracerProvider | MeterProvider):
            provider.force_flush(_FLUSH_MS)
