"""Trace context crosses a stream, tracing is off by default, and spans end as they should."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import INVALID_SPAN, Span, StatusCode

from outrider import telemetry
from outrider.round_timings import RoundTimings
from outrider.tokens import CacheMiss


def recorded() -> tuple[trace.Tracer, InMemorySpanExporter]:
    """A tracer of its own; the process-wide provider stays as it is."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


def new_span() -> Span:
    return recorded()[0].start_span("parent")


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def test_a_span_crosses_the_wire_as_its_traceparent() -> None:
    span = new_span()
    context = trace.get_current_span(telemetry.extract(telemetry.inject(span))).get_span_context()
    assert context.trace_id == span.get_span_context().trace_id
    assert context.span_id == span.get_span_context().span_id
    assert context.is_remote


def test_a_traceparent_is_of_the_w3c_form() -> None:
    version, trace_id, span_id, flags = telemetry.inject(new_span()).split("-")
    assert (version, len(trace_id), len(span_id)) == ("00", 32, 16)
    assert int(flags, 16) & 1, "the sampled flag"


def test_untraced_and_unsampled_rounds_send_nothing() -> None:
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("test").start_span("x")
    assert [telemetry.inject(INVALID_SPAN), telemetry.inject(unsampled)] == ["", ""]


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
    assert not trace.get_current_span(telemetry.extract(text)).get_span_context().is_valid


def test_the_context_of_a_call_is_found_in_its_metadata() -> None:
    span = new_span()
    metadata = [("user-agent", "x"), ("traceparent", telemetry.inject(span)), ("bin-bin", b"\x00")]
    context = trace.get_current_span(telemetry.from_metadata(metadata)).get_span_context()
    assert context.span_id == span.get_span_context().span_id


@pytest.mark.parametrize("metadata", [[], [("traceparent", b"junk")], [("other", "x")]])
def test_metadata_without_context_is_no_error(metadata: list[tuple[str, object]]) -> None:
    assert not trace.get_current_span(telemetry.from_metadata(metadata)).get_span_context().is_valid


@pytest.mark.parametrize("environment", [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SERVICE_NAME": "x"}])
def test_tracing_is_off_unless_asked_for(environment: dict[str, str]) -> None:
    assert telemetry._exporter(environment) is None
    before = trace.get_tracer_provider()
    telemetry.start("test", environment)
    assert trace.get_tracer_provider() is before


def test_a_process_that_starts_no_tracing_records_nothing() -> None:
    """In a process of its own: other tests install a provider, and a process can have only one."""
    code = (
        "from outrider import telemetry; telemetry.start('test', {});"
        "print(telemetry.tracer().start_span('x').is_recording())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_none_wins_over_an_endpoint() -> None:
    asked = {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"}
    assert telemetry._exporter(asked) is None


def test_the_console_exporter_can_be_asked_for() -> None:
    assert isinstance(telemetry._exporter({"OTEL_TRACES_EXPORTER": "console"}), ConsoleSpanExporter)


def test_an_unknown_exporter_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match="OTEL_TRACES_EXPORTER='zipkin': must be"):
        telemetry._exporter({"OTEL_TRACES_EXPORTER": "zipkin"})


def test_an_error_is_recorded_and_the_span_ended() -> None:
    tracer, exporter = recorded()
    with pytest.raises(ValueError, match="broken"), telemetry.ending(tracer.start_span("x")):
        raise ValueError("broken")
    span = only(exporter)
    assert span.attributes == {telemetry.ERROR_TYPE: "ValueError"}
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("ending", [None, asyncio.CancelledError, GeneratorExit])
def test_success_and_cancellation_are_normal_ends(ending: type[BaseException] | None) -> None:
    tracer, exporter = recorded()
    try:
        with telemetry.ending(tracer.start_span("x")):
            if ending:
                raise ending
    except (asyncio.CancelledError, GeneratorExit):
        pass
    assert only(exporter).status.status_code is StatusCode.UNSET


def test_links_are_to_span_contexts_only_and_bounded() -> None:
    context = new_span().get_span_context()
    made = telemetry.links((context, None, "x", *[context] * 500))
    assert 1 < len(made) <= 128
    assert all(link.context == context for link in made)


@pytest.mark.parametrize(("result", "missed"), [(CacheMiss(3), True), ((1, 2), False)])
def test_a_served_round_is_described(result: object, missed: bool) -> None:
    outcome = SimpleNamespace(result=result, cached_len=7, timings=RoundTimings(10, 20, 2, 5))
    assert telemetry.outcome_attributes(outcome) == {
        telemetry.CACHE_MISS: missed,
        telemetry.CACHED_LEN: 7,
        telemetry.QUEUE_US: 10,
        telemetry.FORWARD_US: 20,
        telemetry.PASSES: 2,
        telemetry.BATCH_ROWS: 5,
    }


def test_flushing_without_tracing_is_nothing() -> None:
    telemetry.flush()


def test_counters_leave_when_asked_for_and_an_unknown_exporter_is_refused() -> None:
    program = (
        "from outrider import telemetry\n"
        "telemetry.start('target', {'OTEL_METRICS_EXPORTER': 'console'})\n"
        "telemetry.count(telemetry.PREFIX_CACHE_HITS, '{token}', 'Found', lambda: 41)\n"
        "telemetry.flush()\n"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert '"outrider.prefix_cache.hits"' in printed
    assert '"value": 41' in printed
    with pytest.raises(ValueError, match="OTEL_METRICS_EXPORTER='carrier pigeon'"):
        telemetry.start("target", {"OTEL_METRICS_EXPORTER": "carrier pigeon"})


def test_counters_without_an_exporter_cost_nothing_and_are_no_error() -> None:
    telemetry.count(telemetry.PREFIX_CACHE_HITS, "{token}", "Found", lambda: 1)
