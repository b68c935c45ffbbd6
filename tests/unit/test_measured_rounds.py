"""Seconds of rounds: the formula where nothing was measured, and what was measured at the same load where it was."""

import pytest

from orchestrator.plans import Drafter
from orchestrator.rounds import PLAIN, MeasuredRounds, formula_s, load_of
from outrider.throughput import Costs

SERIAL, AHEAD, COPY = (Drafter.MODEL, False), (Drafter.MODEL, True), (Drafter.NGRAM, False)
COSTS = Costs(lambda rows: 0.002, lambda rows: 0.01 + 0.001 * rows, 0.003, 0.001, sessions=2)


def test_formulas_of_the_kinds() -> None:
    assert formula_s(PLAIN, 0, COSTS) == pytest.approx(0.012)
    assert formula_s(SERIAL, 3, COSTS) == pytest.approx(0.003 + 0.006 + 0.001 + 0.018)
    assert formula_s(COPY, 3, COSTS) == pytest.approx(0.001 + 0.018)
    assert formula_s(AHEAD, 3, COSTS) == pytest.approx(0.001 + 0.018), "what the draft does meanwhile costs no time"


def of(rounds: MeasuredRounds, kind: tuple[Drafter, bool], k: int, sessions: int = 1, now: float = 0.0) -> float:
    """Seconds where the formula says 10 ms a session."""
    return rounds.seconds(kind, k, sessions, lambda count: 0.01 * count, now)


def seen(kind: tuple[Drafter, bool], k: int, took: float, sessions: int = 1, times: int = 12) -> MeasuredRounds:
    rounds = MeasuredRounds()
    for _ in range(times * sessions):
        rounds.note(kind, k, sessions, took, 0.01 * sessions, 0.0)
    return rounds


@pytest.mark.parametrize("kind", [SERIAL, AHEAD])
def test_measurement_wins_over_the_formula_at_its_own_load(kind: tuple[Drafter, bool]) -> None:
    rounds = seen(kind, 2, 0.02)
    assert of(MeasuredRounds(), kind, 2) == pytest.approx(0.01)
    assert of(rounds, kind, 2) == pytest.approx(0.02, rel=0.05)


def test_what_one_length_showed_is_expected_of_the_others_of_its_kind() -> None:
    rounds = seen(AHEAD, 2, 0.016)
    assert of(rounds, AHEAD, 5) == pytest.approx(0.016, rel=0.05)
    assert of(rounds, AHEAD, 5, sessions=16) == pytest.approx(0.16 * 1.6, rel=0.1), "and at other loads"
    assert of(rounds, SERIAL, 2) == pytest.approx(0.01), "and of no other kind"


def test_it_fades_to_the_formula_but_a_kind_that_failed_is_remembered_longer() -> None:
    rounds = seen(SERIAL, 2, 0.02)
    assert of(rounds, SERIAL, 2, now=2000.0) == pytest.approx(0.018, rel=0.1)
    assert of(rounds, SERIAL, 2, now=50_000.0) == pytest.approx(0.01, rel=0.1)


def test_a_measured_time_moves_with_the_sessions_of_the_same_load() -> None:
    rounds = seen(SERIAL, 2, 0.12, sessions=6)
    assert of(rounds, SERIAL, 2, sessions=9) == pytest.approx(0.18, rel=0.05)


def test_loads_are_sessions_by_powers_of_two() -> None:
    assert [load_of(sessions) for sessions in (1, 2, 3, 4, 5, 6, 11, 12, 15, 16, 22, 23, 64)] == [
        *(0, 1, 2, 2, 2, 3, 3, 4, 4, 4, 4, 5, 6)
    ]


def test_hints_change_the_kind_and_count_as_tried() -> None:
    rounds = MeasuredRounds()
    assert not rounds.tried(AHEAD, 16)
    for _ in range(4):
        rounds.hint(AHEAD, 16, 1.6, 0.0)
    assert rounds.tried(AHEAD, 16)
    assert of(rounds, AHEAD, 2, sessions=16) > 1.3 * 0.16


def test_what_is_known_is_counted() -> None:
    rounds = seen(PLAIN, 0, 0.01, times=5)
    assert rounds.weight(PLAIN, 0, 1, 256.0) == pytest.approx(2.5)
    assert rounds.seen(PLAIN, 0, 1) == pytest.approx(5.0)
    assert rounds.seen(PLAIN, 0, 2) == rounds.weight(PLAIN, 0, 2, 0.0) == 0.0
