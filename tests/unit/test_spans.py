"""Light spans are OpenTelemetry's own when they are kept, and say nothing after their end."""

import asyncio

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode

from outrider import semconv, spans
from tests.unit.recorded import Kept


def test_a_kept_span_has_all_that_was_said_of_it() -> None:
    kept = Kept()
    root = kept.begin()
    span = root.child("child", SpanKind.CLIENT, {"a": 1})
    span.set_attribute("b", 2)
    span.describe(lambda about, value: {"c": about + value}, 1, 2)
    span.add_event("event", {"why": "so"})
    span.add_link(root.context)
    span.end()
    (made,) = kept.spans
    assert (made.name, made.kind, dict(made.attributes or {})) == ("child", SpanKind.CLIENT, {"a": 1, "b": 2, "c": 3})
    assert made.parent is not None
    assert made.parent.span_id == root.context.span_id
    assert [event.name for event in made.events] == ["event"]
    assert [link.context for link in made.links] == [root.context]
    assert made.start_time and made.end_time and made.start_time <= made.end_time


def test_what_is_kept_is_marked_as_sampled_although_its_peers_were_not_asked_to_trace() -> None:
    span = Kept(sampled=False).begin()
    assert not span.context.trace_flags.sampled
    context = span.readable(Resource.get_empty()).context
    assert context is not None
    assert context.trace_flags.sampled
    assert (context.trace_id, context.span_id) == (span.context.trace_id, span.context.span_id)


def test_nothing_is_said_after_the_end_and_an_end_is_told_once() -> None:
    kept = Kept()
    span = kept.begin()
    span.end()
    span.set_attribute("late", 1)
    span.set_attributes({"later": 1})
    span.describe(lambda about: {"latest": 1}, None)
    span.add_event("late")
    span.set_status(StatusCode.ERROR)
    span.end()
    (made,) = kept.spans
    assert (dict(made.attributes or {}), made.events, made.status.status_code) == ({}, (), StatusCode.UNSET)


def test_below_a_span_that_nobody_records_there_is_nothing() -> None:
    assert spans.child(INVALID_SPAN, "x") is INVALID_SPAN
    spans.describe(INVALID_SPAN, lambda about: {"never": 1}, None)


def test_an_error_is_recorded_and_the_span_ended() -> None:
    kept = Kept()
    with pytest.raises(ValueError, match="broken"), kept.begin():
        raise ValueError("broken")
    (span,) = kept.spans
    assert dict(span.attributes or {}) == {semconv.ERROR_TYPE: "ValueError"}
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("ending", [None, asyncio.CancelledError, GeneratorExit])
def test_success_and_cancellation_are_normal_ends(ending: type[BaseException] | None) -> None:
    kept = Kept()
    try:
        with kept.begin():
            if ending:
                raise ending
    except (asyncio.CancelledError, GeneratorExit):
        pass
    assert kept.spans[0].status.status_code is StatusCode.UNSET


def test_links_are_to_span_contexts_only_and_bounded() -> None:
    context = Kept().begin().context
    made = spans.links((context, None, "x", *[context] * 500))
    assert 1 < len(made) <= 128
    assert all(link == context for link in made)
