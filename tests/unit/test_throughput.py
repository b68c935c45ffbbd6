"""The formulas, against numbers worked out by hand and against simulations of what they describe."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.throughput import (
    Costs,
    draft_replicas,
    even_acceptance,
    expected_tokens,
    look_ahead,
    look_ahead_break_even_s,
    off,
    serial,
    serial_break_even_s,
)

ACCEPTANCE = (0.8, 0.64, 0.512)
COSTS = Costs(lambda rows: 0.002, lambda rows: 0.020 + 0.001 * (rows - 1), 0.005, 0.001)
CROWD = Costs(lambda rows: 0.002 + 0.0001 * rows, lambda rows: 0.020 + 0.001 * rows, 0.005, 0.001, sessions=16)
RATES = st.floats(0.0, 0.99)
LENGTHS = st.integers(1, 8)


def test_tokens_of_a_round() -> None:
    assert even_acceptance(0.8, 3) == pytest.approx(ACCEPTANCE)
    assert expected_tokens(ACCEPTANCE, 0) == 1.0
    assert expected_tokens(ACCEPTANCE, 2) == pytest.approx(2.44)
    assert expected_tokens(ACCEPTANCE, 9) == pytest.approx(2.952), "nothing is known of further positions"


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.9])
def test_tokens_of_a_round_are_those_of_a_simulation(chance: float) -> None:
    """20 000 rounds of 4; false alarm: 0.06 is more than four standard errors."""
    luck = random.Random(2)
    total = sum(1 + next((n for n in range(4) if luck.random() >= chance), 4) for _ in range(20_000))
    assert total / 20_000 == pytest.approx(expected_tokens(even_acceptance(chance, 4), 4), abs=0.06)


def test_rates_by_hand() -> None:
    assert off(COSTS) == pytest.approx(50.0)
    assert serial(COSTS, ACCEPTANCE, 2) == pytest.approx(2.44 / (0.005 + 0.004 + 0.001 + 0.022))
    assert serial(COSTS, ACCEPTANCE, 0) == off(COSTS)
    assert look_ahead(COSTS, ACCEPTANCE, 2, 0.75, 4) == pytest.approx(2.44 / (0.023 + 0.25 * 0.009))
    assert look_ahead(COSTS, ACCEPTANCE, 3, 1.0, 4) == pytest.approx(2.952 / 0.024), "only the verdict is left"
    slow = Costs(lambda rows: 0.01, COSTS.target_s)
    assert look_ahead(slow, ACCEPTANCE, 3, 1.0, 4) == pytest.approx(2.952 / 0.04), "it is waited for"
    assert look_ahead(slow, ACCEPTANCE, 3, 0.0, 4) == serial(slow, ACCEPTANCE, 3), "and a miss costs no more by it"


def test_passes_hold_the_rows_of_all_sessions() -> None:
    assert off(CROWD) == pytest.approx(1 / 0.036)
    assert CROWD.verify_s(2) == pytest.approx(0.001 + 0.020 + 0.048)
    assert CROWD.propose_s(2) == pytest.approx(0.005 + 2 * 0.0036)
    assert CROWD.prepare_s(2, 4) == pytest.approx(0.005 + 0.0036 + 2 * 0.0084)


@given(RATES, LENGTHS, st.floats(1e-4, 0.1))
def test_at_the_break_even_round_trip_serial_gives_what_off_gives(chance: float, k: int, draft_s: float) -> None:
    costs = Costs(lambda rows: draft_s, COSTS.target_s)
    acceptance = even_acceptance(chance, k)
    trip = serial_break_even_s(costs, acceptance, k)
    there = Costs(costs.draft_s, costs.target_s, trip, trip)
    if trip > 0:
        assert serial(there, acceptance, k) == pytest.approx(off(there))
    else:
        assert serial(costs, acceptance, k) <= off(costs) * (1 + 1e-9)


@given(RATES, LENGTHS, st.floats(1e-4, 0.1), st.floats(0.0, 1.0), st.integers(1, 64))
def test_and_so_does_look_ahead(chance: float, k: int, draft_s: float, hit_rate: float, outcomes: int) -> None:
    costs = Costs(lambda rows: draft_s * (1 + 0.01 * rows), COSTS.target_s)
    acceptance = even_acceptance(chance, k)
    trip = look_ahead_break_even_s(costs, acceptance, k, hit_rate, outcomes)
    there = Costs(costs.draft_s, costs.target_s, trip, trip)
    if trip > 0:
        assert look_ahead(there, acceptance, k, hit_rate, outcomes) == pytest.approx(off(there))
    else:
        assert look_ahead(costs, acceptance, k, hit_rate, outcomes) <= off(costs) * (1 + 1e-9)


def test_drafts_for_a_target() -> None:
    assert draft_replicas(COSTS, 2) == 1
    heavy = Costs(lambda rows: 0.030, lambda rows: 0.020)
    assert draft_replicas(heavy, 2) == 3
    assert draft_replicas(heavy, 2, (0.5, 4)) == 6, "0.03 + 2 x 0.03 + half of 2 x 0.03 over 0.02"
