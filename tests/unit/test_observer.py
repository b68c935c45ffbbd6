"""A request is counted, described and logged once, by what became of it; slow and failed ones are kept."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from orchestrator import observer as module
from orchestrator.meters import Meters
from orchestrator.observer import Observer, Seen, SlowRule
from orchestrator.recorder import Keeping, Recorder
from outrider import semconv
from outrider.errors import InvalidArgument, OutriderError, ResourceExhausted, Unavailable
from outrider.spans import LightSpan


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def observer() -> Observer:
    return Observer(Meters(), Recorder(Keeping()), SlowRule(2.0, 0.5))


def attributes(seen: Seen) -> dict[str, Any]:
    assert isinstance(seen.span, LightSpan)
    return seen.span.attributes


def facts(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    (record,) = [record for record in caplog.records if record.name == "orchestrator.requests"]
    found: dict[str, Any] = record.__dict__["facts"]
    return found


def test_times_are_from_arrival_to_first_token_and_per_token_after_it(clock: Clock, observer: Observer) -> None:
    with observer.request(None) as seen:
        with seen.waiting():
            clock.now += 0.5
        seen.model = "m"
        for tokens in (0, 3, 2):
            clock.now += 0.25
            seen.told(tokens)
        seen.outcome = "stop"
    assert (seen.queue_s, seen.ttft_s) == (0.5, 1.0)
    assert seen.tpot_s == pytest.approx(0.25 / 4)
    meters = observer.meters
    assert (meters.ttft_s.count("m"), meters.tpot_s.count("m"), meters.request_s.count("m", "")) == (1, 1, 1)
    assert meters.queue_s.count() == 1
    assert meters.requests.read() == {("stop",): 1}
    assert attributes(seen)[semconv.TTFT_S] == 1.0


@pytest.mark.parametrize(
    ("error", "outcome", "level", "counted"),
    [
        (Unavailable("no target"), "Unavailable", logging.WARNING, "Unavailable"),
        (RuntimeError("bug"), "RuntimeError", logging.WARNING, "RuntimeError"),
        (InvalidArgument("prompt", "must not be empty"), "InvalidArgument", logging.INFO, "InvalidArgument"),
        (asyncio.CancelledError(), "cancelled", logging.INFO, ""),
        (GeneratorExit(), "cancelled", logging.INFO, ""),
    ],
)
def test_each_outcome_has_its_name_level_and_count(
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    outcome: str,
    level: int,
    counted: str,
) -> None:
    """What a client did wrong, or gave up, is nothing for an operator to look at."""
    caplog.set_level(logging.INFO)
    with pytest.raises(type(error)), observer.request(None):
        raise error
    assert observer.meters.requests.read() == {(outcome,): 1}
    assert observer.meters.request_s.count("", counted) == 1
    assert facts(caplog)["outcome"] == outcome
    assert [record.levelno for record in caplog.records] == [level]


def test_the_line_of_a_request_names_it_and_says_nothing_of_its_text(
    observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with observer.request(None) as seen:
        seen.belongs_to("acme")
        seen.answers("session")
        seen.outcome = "length"
    found = facts(caplog)
    assert (found["tenant"], found["session"], found["outcome"]) == ("acme", "session", "length")
    assert found["trace_id"] == f"{seen.trace.trace_id:032x}"
    known = {"outcome", "tenant", "session", "tokens", "queue_ms", "ttft_ms", "tpot_ms", "took_ms", "trace_id", "error"}
    assert found.keys() <= known


@pytest.mark.parametrize(
    ("first_s", "token_s", "error", "kept"),
    [
        (1.0, 0.1, None, None),
        (2.5, 0.1, None, "slow"),
        (1.0, 0.6, None, "slow"),
        (1.0, 0.1, Unavailable("lost"), "failed"),
        (1.0, 0.1, InvalidArgument("x", "is wrong"), None),
    ],
)
def test_slow_and_failed_requests_are_kept(
    clock: Clock, observer: Observer, first_s: float, token_s: float, error: Exception | None, kept: str | None
) -> None:
    """A request that is wrong in itself is no failure of ours."""
    with contextlib.suppress(OutriderError), observer.request(None) as seen:
        clock.now += first_s
        seen.told(1)
        clock.now += token_s
        seen.told(1)
        if error is not None:
            raise error
    assert attributes(seen).get(semconv.KEPT_BECAUSE) == kept


def test_a_client_that_goes_when_it_has_been_told_all_has_its_answer(observer: Observer) -> None:
    with pytest.raises(GeneratorExit), observer.request(None) as seen:
        seen.outcome = "stop"
        raise GeneratorExit
    assert observer.meters.requests.read() == {("stop",): 1}


def test_a_refusal_at_the_door_is_no_failure_of_ours(observer: Observer, caplog: pytest.LogCaptureFixture) -> None:
    """It has its count; an overload would be a flood of warnings and traces otherwise."""
    caplog.set_level(logging.INFO)
    with pytest.raises(ResourceExhausted), observer.request(None) as seen:
        raise ResourceExhausted("crowded")
    assert semconv.KEPT_BECAUSE not in attributes(seen)
    assert [record.levelno for record in caplog.records] == [logging.INFO]
