"""Figures of speculation by the README's definitions, from hand-made steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine_run import Run, SystemFacts
from bench.speculating import figures
from bench.systems.base import Step, Timing, timed
from bench.windows import Measured
from tests.unit.bench.measured import CODE, LONG, measured, window

AB = [SystemFacts(name, "", ()) for name in ("slow", "fast", "ours")]


def step(proposed: int = 0, accepted: int = 0, ids: tuple[int, ...] = (), at: float = 0.0) -> Step:
    return Step(at, ids or tuple(range(accepted + 1)), proposed, accepted)


def answer(*ids: int) -> Timing:
    return timed(0.0, [Step(1.0 + i, (token,)) for i, token in enumerate(ids)])


def test_acceptance_counts_only_rounds_that_proposed_at_a_position() -> None:
    assert figures.acceptance_by_position([step(2, 2), step(2, 0), step(1, 1), step()]) == (2 / 3, 1 / 2)
    assert figures.acceptance_by_position([step()]) == ()


rounds = st.integers(0, 8).flatmap(lambda k: st.builds(step, st.just(k), st.integers(0, k)))


@given(st.lists(rounds, min_size=1))
def test_tokens_of_a_round_are_one_more_than_the_accepted_ones(steps: list[Step]) -> None:
    accepted = sum(one.accepted for one in steps)
    assert figures.mean_accepted_length(steps) == pytest.approx(1 + accepted / len(steps))
    assert figures.mean_draft_tokens(steps) == pytest.approx(sum(one.proposed for one in steps) / len(steps))


@given(st.lists(st.builds(step, st.just(6), st.integers(0, 6)), min_size=1))
def test_with_blocks_of_one_length_acceptance_never_rises(steps: list[Step]) -> None:
    found = figures.acceptance_by_position(steps)
    assert len(found) == 6
    assert list(found) == sorted(found, reverse=True)


def test_answers_to_the_same_request_are_compared_token_for_token() -> None:
    plain = [Measured("plain", window(), (answer(1, 2), answer(3))), Measured("plain", window(LONG), (answer(4),))]
    other = [Measured("other", window(), (answer(1, 2), answer(5))), Measured("other", window(CODE, 4), (answer(4),))]
    assert figures.identical(plain, other) == (1, 2)


def test_the_fastest_is_that_of_the_cell() -> None:
    run = Run([measured("slow", window(), 4.0), measured("fast", window(), 2.0), measured("ours", window(), 1.0)], AB)
    assert figures.fastest(run, ["slow", "fast"], 1, "code") == "fast"
    found = figures.against_fastest(run, "ours", ["slow", "fast"], 1, "code")
    assert found is not None
    assert found.median == pytest.approx(2.0)
    assert figures.least([found, run.against("slow", 1, "code", "ours"), None]) == 2.0
    assert figures.median_speed(run, "nobody", 1, "code") == 0
    assert figures.least([]) is None


def test_the_rate_behind_the_first_rounds_leaves_them_out() -> None:
    """Two slow tokens, then two tokens a second."""
    steps = [step(ids=(1,), at=at) for at in (10.0, 20.0)] + [step(ids=(1, 2), at=21.0 + i) for i in range(5)]
    assert figures.rate_after(timed(0.0, steps), 2) == pytest.approx(2.0)
    assert figures.rate_after(timed(0.0, steps[:3]), 10) == pytest.approx(2.0), "the last step is always there"


def test_a_window_is_settled_as_the_mean_of_its_answers() -> None:
    one, two = ([step(ids=(1,), at=i * pace) for i in range(1, 5)] for pace in (1.0, 0.5))
    assert figures.settled([Measured("A", window(), (timed(0, one), timed(0, two)))], 2) == [pytest.approx(1.5)]
