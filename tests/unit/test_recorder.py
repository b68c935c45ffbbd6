"""The last requests are remembered within bounds, by tenant, and exported when they are sampled or worth keeping."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, SpanContext, SpanKind, TraceFlags

from orchestrator.recorder import Keeping, Recorder, RequestTrace
from outrider import spans, telemetry
from outrider.spans import LightSpan


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """What leaves while requests are sampled by their callers' wish only."""
    made = InMemorySpanExporter()
    telemetry.install(SimpleSpanProcessor(made), sampling.DEFAULT_OFF)
    yield made
    telemetry.install(None)


def request(recorder: Recorder, name: str = "s", rounds: int = 3, keep: bool = False, tenant: str = "") -> RequestTrace:
    trace = recorder.begin(None)
    trace.session_id, trace.tenant = name, tenant
    for _ in range(rounds):
        spans.child(trace.root, "round").end()
    trace.root.end()
    recorder.end(trace, keep)
    return trace


def test_the_last_requests_are_remembered_and_older_ones_are_not() -> None:
    recorder = Recorder(Keeping(requests=2))
    for name in ("a", "b", "c"):
        request(recorder, name)
    assert [trace.session_id for trace in recorder.recent("")] == ["c", "b"]
    assert recorder.held == 8
    assert (recorder.find("", "a"), recorder.find("", "b")) == (None, recorder.recent("")[1])


def test_a_request_is_found_by_its_session_or_its_trace_and_the_last_one_is_meant() -> None:
    recorder = Recorder(Keeping())
    first, last = request(recorder), request(recorder)
    assert recorder.find("", "s") is last
    assert recorder.find("", f"{first.trace_id:032x}") is first


def test_nobody_sees_the_requests_of_another_tenant() -> None:
    recorder = Recorder(Keeping())
    trace = request(recorder, tenant="acme")
    assert recorder.recent("") == []
    assert recorder.find("", trace.session_id) is None
    assert recorder.recent("acme") == [trace]


def test_older_requests_give_way_to_the_spans_of_new_ones() -> None:
    recorder = Recorder(Keeping(spans=10))
    for name in ("a", "b", "c"):
        request(recorder, name)
    assert [trace.session_id for trace in recorder.recent("")] == ["c", "b"]
    assert recorder.held <= 10


def test_what_has_no_room_is_left_out_and_said_so_but_for_the_request_itself() -> None:
    """Nor is anything kept whose round was left out: it would hang loose."""
    recorder = Recorder(Keeping(spans=2))
    running = recorder.begin(None)
    running.session_id = "s"
    for _ in range(3):
        with spans.child(running.root, "round") as round_:
            spans.child(round_, "target.verify").end()
    assert (len(running.kept), running.left_out, recorder.held) == (2, 4, 2)
    running.root.end()
    recorder.end(running, keep=False)
    assert [span.name for span in running.spans] == ["target.verify", "round", "generate"]
    request(recorder, "next", rounds=1)
    assert [trace.session_id for trace in recorder.recent("")] == ["next"]


def test_requests_that_nobody_can_ask_for_take_no_place() -> None:
    """Such as wrong ones, and calls with a wrong key."""
    recorder = Recorder(Keeping(requests=2))
    request(recorder, "s")
    for _ in range(5):
        request(recorder, "")
    assert [trace.session_id for trace in recorder.recent("")] == ["s"]
    assert recorder.held == 4


def test_a_running_request_is_seen_with_what_has_ended_of_it() -> None:
    recorder = Recorder(Keeping())
    trace = recorder.begin(None)
    trace.session_id = "s"
    spans.child(trace.root, "round").end()
    assert [span.name for span in trace.spans] == ["round", "generate"]
    assert recorder.recent("") == [trace]


@pytest.mark.parametrize("keep", [False, True])
def test_a_request_that_is_not_sampled_leaves_only_if_it_is_worth_keeping(
    exporter: InMemorySpanExporter, keep: bool
) -> None:
    recorder = Recorder(Keeping())
    trace = request(recorder, keep=keep)
    recorder.close()
    assert not trace.sampled
    assert telemetry.inject(trace.root) == "", "replicas are not asked to trace it"
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == (["round", "round", "round", "generate"] if keep else [])


@pytest.mark.parametrize("keep", [False, True])
def test_a_sampled_request_leaves_once(exporter: InMemorySpanExporter, keep: bool) -> None:
    recorder = Recorder(Keeping())
    trace = recorder.begin(SpanContext(5, 6, True, TraceFlags(1)))
    trace.root.end()
    recorder.end(trace, keep)
    recorder.close()
    (span,) = exporter.get_finished_spans()
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (5, 6)


def test_with_nothing_to_remember_and_nowhere_to_go_nothing_is_recorded() -> None:
    recorder = Recorder(Keeping(requests=0))
    trace = recorder.begin(None)
    assert trace.root is INVALID_SPAN
    recorder.end(trace, keep=True)
    assert recorder.held == 0


def test_what_was_noted_in_a_span_takes_room_too_and_gives_it_back() -> None:
    recorder = Recorder(Keeping(requests=1))
    for _ in range(3):
        trace = recorder.begin(None)
        trace.session_id = "s"
        with spans.child(trace.root, "round") as round_:
            assert isinstance(round_, LightSpan)
            round_.note("target.verify", SpanKind.CLIENT, 1, 2, lambda about: {}, None)
        trace.root.end()
        recorder.end(trace, keep=False)
    assert recorder.held == 3
    assert [span.name for span in trace.spans] == ["target.verify", "round", "generate"]
