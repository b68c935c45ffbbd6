"""Trace context crosses a stream, tracing and metrics are off by default, and what is asked for wrongly is refused."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, SpanContext, TraceFlags

from outrider import metric_settings, semconv, telemetry, trace_settings
from outrider.round_timings import RoundTimings
from outrider.tokens import CacheMiss
from tests.unit.recorded import Kept

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"


def test_a_span_crosses_the_wire_as_its_traceparent() -> None:
    span = Kept().begin()
    context = telemetry.extract(telemetry.inject(span))
    assert context is not None
    assert (context.trace_id, context.span_id, context.is_remote) == (span.context.trace_id, span.context.span_id, True)


def test_a_traceparent_is_of_the_w3c_form() -> None:
    version, trace_id, span_id, flags = telemetry.inject(Kept().begin()).split("-")
    assert (version, len(trace_id), len(span_id)) == ("00", 32, 16)
    assert int(flags, 16) & 1, "the sampled flag"


def test_untraced_and_unsampled_rounds_send_nothing() -> None:
    assert [telemetry.inject(INVALID_SPAN), telemetry.inject(Kept(sampled=False).begin())] == ["", ""]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "00-",
        "00-zz-1-01",
        "00-" + "0" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "a" * 32 + "-" + "b" * 16 + "-01",
    ],
)
def test_a_malformed_traceparent_is_no_context_and_no_error(text: str) -> None:
    assert telemetry.extract(text) is None


def test_the_context_of_a_call_is_found_in_its_metadata() -> None:
    span = Kept().begin()
    context = telemetry.from_metadata(
        [("user-agent", "x"), ("traceparent", telemetry.inject(span)), ("bin-bin", b"\0")]
    )
    assert context is not None
    assert context.span_id == span.context.span_id


@pytest.mark.parametrize("metadata", [[], [("traceparent", b"junk")], [("other", "x")]])
def test_metadata_without_context_is_no_error(metadata: list[tuple[str, object]]) -> None:
    assert telemetry.from_metadata(metadata) is None


@pytest.mark.parametrize("environment", [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SERVICE_NAME": "x"}])
def test_tracing_is_off_unless_asked_for(environment: dict[str, str]) -> None:
    assert trace_settings.span_exporter(environment) is None
    telemetry.start("test", environment)
    assert not telemetry.tracing().on
    assert telemetry.serving(PARENT + "1", "x", {}) is INVALID_SPAN


@pytest.mark.parametrize(("flag", "recorded"), [("1", True), ("0", False)])
def test_a_replica_traces_what_its_caller_traces(monkeypatch: pytest.MonkeyPatch, flag: str, recorded: bool) -> None:
    """And nothing that came without a span: it would be a root of its own."""
    monkeypatch.setattr(telemetry, "_tracing", telemetry._OFF)
    telemetry.install(SimpleSpanProcessor(InMemorySpanExporter()))
    assert telemetry.serving(PARENT + flag, "x", {}).is_recording() is recorded
    assert telemetry.serving("", "x", {}) is INVALID_SPAN


@pytest.mark.parametrize(
    ("name", "argument", "sampled"),
    [
        ("parentbased_always_on", "", [True, True, False]),
        ("always_off", "", [False, False, False]),
        ("always_on", "", [True, True, True]),
        ("parentbased_traceidratio", "0", [False, True, False]),
        ("traceidratio", "1", [True, True, True]),
    ],
)
def test_the_standard_samplers_say_which_requests_are_traced(name: str, argument: str, sampled: list[bool]) -> None:
    """Of a request without a parent, with one that is sampled, and with one that is not."""
    environment = {"OTEL_TRACES_SAMPLER": name} | ({"OTEL_TRACES_SAMPLER_ARG": argument} if argument else {})
    processor = SimpleSpanProcessor(InMemorySpanExporter())
    tracing = telemetry.Tracing(processor, telemetry._OFF.resource, trace_settings.sampler(environment))
    parents = [SpanContext(5, 6, True, TraceFlags(flags)) for flags in (1, 0)]
    assert [tracing.samples(parent, 5, "generate") for parent in (None, *parents)] == sampled


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_METRICS_EXPORTER", "carrier pigeon"),
        ("OTEL_METRICS_EXPORTER", "none,carrier pigeon"),
    ],
)
def test_what_is_unknown_is_refused_with_its_value(variable: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{variable}='{value.split(',')[-1]}': must be"):
        telemetry.start("test", {variable: value})


@pytest.mark.parametrize(
    "environment",
    [
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "many"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "many"},
    ],
)
def test_what_cannot_be_is_refused_by_name(environment: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=list(environment)[-1]):
        telemetry.start("test", environment)


def test_none_wins_over_an_endpoint() -> None:
    asked = {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"}
    assert trace_settings.span_exporter(asked) is None


def test_the_console_exporter_can_be_asked_for() -> None:
    assert isinstance(trace_settings.span_exporter({"OTEL_TRACES_EXPORTER": "console"}), ConsoleSpanExporter)


@pytest.mark.parametrize(("result", "missed"), [(CacheMiss(3), True), ((1, 2), False)])
def test_a_served_round_is_described(result: object, missed: bool) -> None:
    outcome = SimpleNamespace(result=result, cached_len=7, timings=RoundTimings(10, 20, 2, 5))
    assert telemetry.outcome_attributes(outcome) == {
        semconv.CACHE_MISS: missed,
        semconv.CACHED_LEN: 7,
        semconv.QUEUE_US: 10,
        semconv.FORWARD_US: 20,
        semconv.PASSES: 2,
        semconv.BATCH_ROWS: 5,
    }


def test_flushing_without_tracing_is_nothing() -> None:
    telemetry.flush()


def test_counters_and_histograms_leave_when_asked_for() -> None:
    program = (
        "from outrider import metric_settings, semconv, telemetry\n"
        "from outrider.instruments import Reading, Histogram\n"
        "telemetry.start('target', {'OTEL_METRICS_EXPORTER': 'console'})\n"
        "waits = Histogram(semconv.M_QUEUE)\n"
        "metric_settings.export([Reading(semconv.M_FOUND, lambda: {(): 41}), waits])\n"
        "waits.record(0.3)\n"
        "telemetry.flush()\n"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert f'"{semconv.M_FOUND.name}"' in printed
    assert '"value": 41' in printed
    assert f'"{semconv.M_QUEUE.name}"' in printed
    assert '"sum": 0.3' in printed


def test_instruments_without_an_exporter_cost_nothing_and_are_no_error() -> None:
    metric_settings.export([])


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "outrider-target"),
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine"}, "mine"),
    ],
)
def test_the_standard_variables_may_name_a_service_otherwise(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert trace_settings.resource("target").attributes["service.name"] == name


def test_the_sdk_can_be_switched_off_by_its_standard_variable() -> None:
    telemetry.start("test", {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"})
    assert not telemetry.tracing().on
