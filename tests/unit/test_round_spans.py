"""Each round of a message has one span, which its passes know, and none stays open however the message ends."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import INVALID_SPAN, Span

from outrider import semconv
from outrider.errors import Unavailable
from outrider.inference.job import Outcome
from outrider.round_timings import RoundTimings
from target_service.round_spans import RoundSpans
from tests.unit.recorded import Kept


class Ended:
    """Spans that have ended, and how to begin one of round ``index``."""

    def __init__(self) -> None:
        self._kept = Kept()

    def begin(self, index: int) -> Span:
        return self._kept.begin(str(index))

    @property
    def spans(self) -> list[ReadableSpan]:
        return self._kept.spans


@pytest.fixture
def ended() -> Iterator[Ended]:
    yield Ended()


def outcome(length: int) -> Outcome:
    return Outcome(None, length, RoundTimings(1, 2, 3, 4))


def traced(spans: RoundSpans) -> Callable[[], Any]:
    assert spans.trace is not None
    return spans.trace


def test_rounds_end_in_order_each_with_its_own_outcome(ended: Ended) -> None:
    """The next round begins before the last one is told, as it does on the engine's thread."""
    contexts = []
    with RoundSpans(ended.begin).ending() as spans:
        contexts.append(traced(spans)())
        for length in range(3):
            if length < 2:
                contexts.append(traced(spans)())
            spans.answered(outcome(length))
    assert [span.name for span in ended.spans] == ["0", "1", "2"]
    assert [span.get_span_context() for span in ended.spans] == contexts
    assert [(span.attributes or {})[semconv.CACHED_LEN] for span in ended.spans] == [0, 1, 2]


def test_what_nobody_waits_for_any_more_ends_with_the_message(ended: Ended) -> None:
    """A round that the engine begins after that has no span."""
    with RoundSpans(ended.begin).ending() as spans:
        trace = traced(spans)
        trace()
        trace()
        spans.answered(outcome(0))
    assert [span.name for span in ended.spans] == ["0", "1"]
    assert trace() is None
    assert len(ended.spans) == 2


def test_an_error_is_on_the_round_that_it_ended_and_on_no_other(ended: Ended) -> None:
    spans = RoundSpans(ended.begin)
    with pytest.raises(Unavailable), spans.ending():
        traced(spans)()
        traced(spans)()
        spans.answered(outcome(0))
        raise Unavailable("stopping")
    assert [(span.attributes or {}).get(semconv.ERROR_TYPE) for span in ended.spans] == [None, "Unavailable"]


def test_nothing_is_done_when_nobody_records() -> None:
    begun = []

    def begin(index: int) -> Span:
        begun.append(index)
        return INVALID_SPAN

    with RoundSpans(begin).ending() as spans:
        assert spans.trace is None
        for length in range(3):
            spans.answered(outcome(length))
    assert begun == [0]
