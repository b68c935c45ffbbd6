"""The span of an exchange has the sizes of its messages and what the network took; an untraced one counts nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import INVALID_SPAN

from orchestrator import exchange as module
from orchestrator.exchange import Exchange
from outrider import telemetry
from outrider.round_timings import RoundTimings
from outrider.tokens import Claim
from outrider.v1 import common_pb2, target_pb2

CLAIM = Claim(3, 9, (5, 6))
REQUEST = target_pb2.VerifyRequest(round=4, tokens=[5, 6])
RESPONSE = target_pb2.VerifyResponse(
    round=4,
    verdict=target_pb2.Verdict(next_token=7),
    timings=common_pb2.Timings(queue_us=1000, forward_us=5000, passes=1, batch_rows=9),
)


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Recorded exchanges, at the times of a clock."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(telemetry, "_tracer", TracerProvider(shutdown_on_exit=False).get_tracer("test"))
    return made


def begun(number: int = 4) -> Exchange:
    return Exchange("exchange", number, CLAIM, INVALID_SPAN)


def attributes(made: Exchange) -> dict[str, Any]:
    assert isinstance(made.span, ReadableSpan)
    return dict(made.span.attributes or {})


def test_an_exchange_says_its_bytes_and_what_the_replica_did_not_need(clock: Clock) -> None:
    made = begun()
    clock.now += 0.0085
    made.sent(REQUEST)
    made.answered(RESPONSE)
    assert attributes(made) == {
        telemetry.ROUND: 4,
        telemetry.PREFIX_LEN: 3,
        telemetry.BYTES_SENT: len(REQUEST.SerializeToString()),
        telemetry.BYTES_RECEIVED: len(RESPONSE.SerializeToString()),
        telemetry.CACHE_MISS: False,
        telemetry.QUEUE_US: 1000,
        telemetry.FORWARD_US: 5000,
        telemetry.PASSES: 1,
        telemetry.BATCH_ROWS: 9,
        telemetry.NETWORK_US: pytest.approx(2500, abs=1),
    }


def test_a_round_of_a_run_sends_nothing_and_links_to_the_round_that_did(clock: Clock) -> None:
    first, second = begun(4), begun(5)
    first.in_run_of(first)
    second.in_run_of(first)
    second.sent(None)
    second.answered(RESPONSE, in_run=True)
    found = attributes(second)
    assert (found[telemetry.RUN_FIRST], found[telemetry.BYTES_SENT]) == (4, 0)
    assert telemetry.NETWORK_US not in found
    assert isinstance(first.span, ReadableSpan)
    assert isinstance(second.span, ReadableSpan)
    assert [link.context for link in second.span.links] == [first.span.get_span_context()]
    assert (attributes(first)[telemetry.RUN_FIRST], first.span.links) == (4, ())


def test_an_answer_counts_when_it_comes_not_when_it_is_taken_up(clock: Clock) -> None:
    made = begun()
    clock.now += 0.007
    made.arrived(RESPONSE)
    clock.now += 50.0
    made.arrived(RESPONSE)
    made.over(taken_up=True)
    assert isinstance(made.span, ReadableSpan)
    assert [event.name for event in made.span.events] == [telemetry.ARRIVED]
    assert attributes(made)[telemetry.NETWORK_US] == pytest.approx(1000, abs=1)
    assert attributes(made)[telemetry.TAKEN_UP] is True


def test_what_comes_after_the_end_changes_nothing(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Nor is it complained of."""
    made = begun()
    made.over(taken_up=False)
    late: list[Callable[[], None]] = [
        lambda: made.sent(REQUEST),
        lambda: made.arrived(RESPONSE),
        lambda: made.answered(RESPONSE),
        lambda: made.over(taken_up=True),
    ]
    for call in late:
        call()
    assert attributes(made)[telemetry.TAKEN_UP] is False
    assert telemetry.BYTES_SENT not in attributes(made)
    assert not caplog.records


def test_an_untraced_exchange_looks_at_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages may be anything here: nothing is computed for nobody."""
    monkeypatch.setattr(telemetry._tracer, "start_span", lambda *_, **__: INVALID_SPAN)
    made = begun()
    made.in_run_of(made)
    made.sent(object())
    made.answered(object())
    made.arrived(object())
    made.over(taken_up=True)


@pytest.mark.parametrize(("took_s", "network_us"), [(0.010, 4000), (0.006, 10), (0.001, 10)])
def test_the_network_takes_what_is_left_and_never_less_than_the_estimates_say(took_s: float, network_us: int) -> None:
    assert RoundTimings(1000, 5000).network_us(took_s) == network_us
