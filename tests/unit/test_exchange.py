"""The span of an exchange has the sizes of its messages and what the network took; an untraced one counts nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN, Span

from orchestrator import exchange as module
from orchestrator.exchange import Exchange, Way
from orchestrator.meters import Meters
from outrider import semconv
from outrider.round_timings import RoundTimings
from outrider.spans import LightSpan
from outrider.tokens import Claim
from outrider.v1 import common_pb2, target_pb2
from tests.unit.recorded import Kept

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

    def time_ns(self) -> int:
        return int(self.now * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Recorded exchanges, at the times of a clock."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def begun(number: int = 4, parent: Span | None = None, meters: Meters | None = None, moved: bool = False) -> Exchange:
    way = Way("host:1", "Verify", (meters or Meters()).tiers["target"], moved)
    return Exchange(way, "exchange", number, CLAIM, Kept().begin() if parent is None else parent)


def span_of(made: Exchange) -> LightSpan:
    """Its span, whether or not it has ended."""
    made.__exit__(None, None, None)
    assert isinstance(made.span, LightSpan)
    return made.span


def attributes(made: Exchange) -> dict[str, Any]:
    return span_of(made).attributes


def test_an_exchange_says_its_bytes_and_what_the_replica_did_not_need(clock: Clock) -> None:
    made = begun()
    clock.now += 0.0085
    made.sent(REQUEST)
    made.answered(RESPONSE)
    assert attributes(made) == {
        semconv.ROUND: 4,
        semconv.PREFIX_LEN: 3,
        semconv.SERVER_ADDRESS: "host:1",
        semconv.RPC_SYSTEM: "grpc",
        semconv.RPC_METHOD: "Verify",
        semconv.BYTES_SENT: len(REQUEST.SerializeToString()),
        semconv.BYTES_RECEIVED: len(RESPONSE.SerializeToString()),
        semconv.CACHE_MISS: False,
        semconv.QUEUE_US: 1000,
        semconv.FORWARD_US: 5000,
        semconv.PASSES: 1,
        semconv.BATCH_ROWS: 9,
        semconv.NETWORK_US: pytest.approx(2500, abs=1),
    }


def test_a_round_of_a_run_sends_nothing_and_links_to_the_round_that_did(clock: Clock) -> None:
    first, second = begun(4), begun(5)
    first.in_run_of(first)
    second.in_run_of(first)
    second.answered(RESPONSE, in_run=True)
    found = attributes(second)
    assert (found[semconv.RUN_FIRST], found[semconv.BYTES_SENT]) == (4, 0)
    assert semconv.NETWORK_US not in found
    assert [link.context for link in span_of(second).links] == [first.span.get_span_context()]
    first.answered(RESPONSE)
    assert (attributes(first)[semconv.RUN_FIRST], span_of(first).links) == (4, ())


def test_an_answer_counts_when_it_comes_not_when_it_is_taken_up(clock: Clock) -> None:
    made = begun()
    clock.now += 0.007
    made.arrived(RESPONSE)
    clock.now += 50.0
    made.arrived(RESPONSE)
    made.over(taken_up=True)
    assert [event.name for event in span_of(made).events] == [semconv.EVENT_ARRIVED]
    assert attributes(made)[semconv.NETWORK_US] == pytest.approx(1000, abs=1)
    assert attributes(made)[semconv.TAKEN_UP] is True


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
    assert attributes(made)[semconv.TAKEN_UP] is False
    assert semconv.BYTES_SENT not in attributes(made)
    assert semconv.BYTES_RECEIVED not in attributes(made)
    assert not caplog.records


def test_an_untraced_exchange_is_counted_all_the_same(clock: Clock) -> None:
    meters = Meters()
    made = begun(parent=INVALID_SPAN, meters=meters)
    clock.now += 0.0085
    made.sent(REQUEST)
    made.answered(RESPONSE)
    made.over(taken_up=True)
    assert meters.bytes() == {
        ("target", "sent"): REQUEST.ByteSize(),
        ("target", "received"): RESPONSE.ByteSize(),
    }
    assert (meters.exchange_s.count("target"), meters.network_s.count("target")) == (1, 1)


@pytest.mark.parametrize(("moved", "reasons"), [(True, ["moved", "lost"]), (False, ["lost", "lost"])])
def test_a_cache_miss_is_an_event_with_its_reason_and_counted(clock: Clock, moved: bool, reasons: list[str]) -> None:
    """Only the first answer of a replica that the session has moved to is missed for that."""
    meters = Meters()
    way = Way("host:1", "Verify", meters.tiers["target"], moved)
    missed = target_pb2.VerifyResponse(cache_miss=common_pb2.CacheMiss())
    told = []
    for number in (4, 5):
        made = Exchange(way, "exchange", number, CLAIM, Kept().begin())
        made.answered(missed)
        (event,) = span_of(made).events
        assert event.attributes is not None
        told.append((event.name, event.attributes[semconv.REASON]))
    assert told == [(semconv.EVENT_CACHE_MISS, reason) for reason in reasons]
    assert meters.misses.total() == 2


@pytest.mark.parametrize(("took_s", "network_us"), [(0.010, 4000), (0.006, 10), (0.001, 10)])
def test_the_network_takes_what_is_left_and_never_less_than_the_estimates_say(took_s: float, network_us: int) -> None:
    assert RoundTimings(1000, 5000).network_us(took_s) == network_us


@pytest.mark.parametrize("sampled", [True, False])
def test_a_round_that_replicas_need_not_trace_has_the_same_spans_at_less_cost(clock: Clock, sampled: bool) -> None:
    """They are noted, and made when somebody wants them."""
    round_ = Kept(sampled).begin("round")
    with begun(parent=round_) as made:
        assert bool(made.traceparent) == sampled
        clock.now += 0.0085
        made.sent(REQUEST)
        made.answered(RESPONSE)
    assert [span.name for span in round_.noted()] == ([] if sampled else ["exchange"])
    span = span_of(made) if sampled else round_.noted()[0]
    assert span.attributes[semconv.NETWORK_US] == pytest.approx(2500, abs=1)
    if not sampled:
        assert span.start_ns == int(100e9)
        assert span.end_ns - span.start_ns == pytest.approx(8_500_000, abs=1e6)
    assert span.parent == round_.context
    assert [each.context for each in round_.noted()] == [each.context for each in round_.noted()]


def test_an_exchange_that_fails_is_a_span_with_its_error(clock: Clock) -> None:
    kept = Kept(sampled=False)
    with pytest.raises(ValueError, match="broken"), begun(parent=kept.begin("round")):
        raise ValueError("broken")
    (span,) = kept.light
    assert (span.attributes[semconv.ERROR_TYPE], span.attributes[semconv.ROUND]) == ("ValueError", 4)
