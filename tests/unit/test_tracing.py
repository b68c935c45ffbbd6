"""The span of a round says what was decided, why, and what became of it, under the names of the registry."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import INVALID_SPAN, Span

from orchestrator.plans import Drafter, Estimates, Plan
from orchestrator.totals import Round
from orchestrator.tracing import describe
from outrider import telemetry

ESTIMATES = Estimates(80.0, 50.0, (0.8, 0.6), 0.4, 0.002, 0.03, 0.001, 0.004)
PLAN = Plan(Drafter.MODEL, 2, look_ahead=True, fanout=(3, 2, 1), covered=0.7, estimates=ESTIMATES)


def done(accepted: int = 1, hit: bool | None = None) -> Round:
    block = (5, 6)
    return Round(4, block, accepted, (*block[:accepted], 9), (), 1000, 20_000, Drafter.MODEL, prepared=True, hit=hit)


def attributes(round_: Round, plan: Plan = PLAN) -> dict[str, Any]:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("round")
    describe(span, round_, plan)
    assert isinstance(span, ReadableSpan)
    return dict(span.attributes or {})


def test_what_became_of_the_round() -> None:
    found = attributes(done())
    expected = {telemetry.ROUND: 4, telemetry.PROPOSED: 2, telemetry.ACCEPTED: 1, telemetry.EMITTED: 2}
    assert expected.items() <= found.items()
    assert (found[telemetry.DRAFTER], found[telemetry.PREPARED]) == ("model", True)


@pytest.mark.parametrize(("accepted", "kind"), [(0, "correction"), (1, "correction"), (2, "bonus")])
def test_the_token_of_the_targets_own_is_a_bonus_behind_a_whole_block(accepted: int, kind: str) -> None:
    assert attributes(done(accepted))[telemetry.NEXT_TOKEN_KIND] == kind


def test_the_decision_and_the_numbers_behind_it() -> None:
    found = attributes(done())
    assert (found[telemetry.LOOK_AHEAD], found[telemetry.FANOUT]) == (True, (3, 2, 1))
    assert (found[telemetry.RATE_CHOSEN], found[telemetry.RATE_PLAIN]) == (80.0, 50.0)
    assert found[telemetry.ACCEPTANCE] == (0.8, 0.6)
    assert (found[telemetry.RTT_DRAFT_S], found[telemetry.RTT_TARGET_S]) == (0.001, 0.004)


def test_every_name_is_in_the_registry() -> None:
    registry = {value for value in vars(telemetry).values() if isinstance(value, str)}
    assert attributes(done(hit=True)).keys() <= registry


@pytest.mark.parametrize("hit", [None, False, True])
def test_a_hit_is_told_only_of_rounds_that_looked_ahead(hit: bool | None) -> None:
    assert attributes(done(hit=hit)).get(telemetry.LOOK_AHEAD_HIT) is hit


@pytest.mark.parametrize(
    "span",
    [INVALID_SPAN, TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("test").start_span("round")],
)
def test_a_span_that_nobody_records_is_left_alone(span: Span) -> None:
    describe(span, done(), PLAN)
    assert not span.is_recording()
