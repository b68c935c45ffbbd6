"""The span of a round says what was decided, why, and what became of it, under the names of the registry."""

from typing import Any

import pytest

from orchestrator.plans import Drafter, Estimates, Plan
from orchestrator.totals import Round
from orchestrator.tracing import round_attributes
from outrider import semconv

ESTIMATES = Estimates(80.0, 50.0, (0.8, 0.6), 0.4, 0.002, 0.03, 0.001, 0.004)
PLAN = Plan(Drafter.MODEL, 2, look_ahead=True, fanout=(3, 2, 1), covered=0.7, estimates=ESTIMATES)


def done(accepted: int = 1, hit: bool | None = None) -> Round:
    block = (5, 6)
    return Round(4, block, accepted, (*block[:accepted], 9), (), 1000, 20_000, Drafter.MODEL, prepared=True, hit=hit)


def attributes(round_: Round, plan: Plan = PLAN) -> dict[str, Any]:
    return round_attributes(round_, plan, with_tokens=False)


def test_what_became_of_the_round() -> None:
    found = attributes(done())
    expected = {semconv.ROUND: 4, semconv.PROPOSED: 2, semconv.ACCEPTED: 1, semconv.EMITTED: 2}
    assert expected.items() <= found.items()
    assert (found[semconv.DRAFTER], found[semconv.PREPARED]) == ("model", True)


@pytest.mark.parametrize(("accepted", "kind"), [(0, "correction"), (1, "correction"), (2, "bonus")])
def test_the_token_of_the_targets_own_is_a_bonus_behind_a_whole_block(accepted: int, kind: str) -> None:
    assert attributes(done(accepted))[semconv.NEXT_TOKEN_KIND] == kind


def test_the_decision_and_the_numbers_behind_it() -> None:
    found = attributes(done())
    assert (found[semconv.LOOK_AHEAD], found[semconv.FANOUT]) == (True, (3, 2, 1))
    assert (found[semconv.RATE_CHOSEN], found[semconv.RATE_PLAIN]) == (80.0, 50.0)
    assert found[semconv.ACCEPTANCE] == (0.8, 0.6)
    assert (found[semconv.RTT_DRAFT_S], found[semconv.RTT_TARGET_S]) == (0.001, 0.004)


def test_every_name_is_in_the_registry() -> None:
    registry = {each.name for each in semconv.ATTRIBUTES}
    assert round_attributes(done(hit=True), PLAN, with_tokens=True).keys() <= registry


@pytest.mark.parametrize("hit", [None, False, True])
def test_a_hit_is_told_only_of_rounds_that_looked_ahead(hit: bool | None) -> None:
    assert attributes(done(hit=hit)).get(semconv.LOOK_AHEAD_HIT) is hit


def test_tokens_are_somebodys_text_and_told_only_where_that_is_asked_for() -> None:
    private = {semconv.BLOCK_TOKENS, semconv.EMITTED_TOKENS}
    assert not private & attributes(done()).keys()
    assert private <= round_attributes(done(), PLAN, with_tokens=True).keys()
