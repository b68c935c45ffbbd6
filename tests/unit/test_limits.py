"""A bucket lets its rate and its burst through, no more; who waits as long as he was told is out of debt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.limits import Limits, TokenBucket
from tests.unit.clock import Clock


def test_without_a_rate_nothing_is_ever_owed(clock: Clock) -> None:
    bucket = TokenBucket(Limits(max_answers=1))
    bucket.spend(10**9)
    assert (bucket.debt_s, bucket.full) == (0.0, True)


def test_the_burst_may_be_emitted_at_once_and_then_the_rate_counts(clock: Clock) -> None:
    bucket = TokenBucket(Limits(tokens_per_s=20.0, burst_tokens=100.0))
    bucket.spend(100)
    assert bucket.debt_s == 0.0
    bucket.spend(10)
    assert bucket.debt_s == pytest.approx(0.5)
    clock.now += 0.4
    assert bucket.debt_s == pytest.approx(0.1)
    clock.now += 0.1
    assert bucket.debt_s == 0.0


def test_a_burst_that_nobody_named_is_worth_ten_seconds(clock: Clock) -> None:
    bucket = TokenBucket(Limits(tokens_per_s=7.0))
    bucket.spend(70)
    assert bucket.debt_s == 0.0
    bucket.spend(7)
    assert bucket.debt_s == pytest.approx(1.0)


def test_time_in_which_it_is_full_earns_nothing(clock: Clock) -> None:
    bucket = TokenBucket(Limits(tokens_per_s=1.0, burst_tokens=5.0))
    clock.now += 1000.0
    bucket.spend(6)
    assert bucket.debt_s == pytest.approx(1.0)
    assert not bucket.full
    clock.now += 6.0
    assert bucket.full


@given(
    rate=st.floats(0.01, 1e6),
    burst=st.floats(0.0, 1e6),
    spent=st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(0, 5000)), max_size=20),
)
def test_whoever_asks_for_tokens_out_of_debt_only_gets_the_rate_and_one_burst(
    rate: float, burst: float, spent: list[tuple[float, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock, limits = Clock(patch), Limits(0, rate, burst)
        bucket, start, emitted = TokenBucket(limits), clock.now, 0
        for waits_s, tokens in spent:
            clock.now += waits_s
            assert emitted <= burst_of(limits) + rate * (clock.now - start + bucket.debt_s) * (1 + 1e-6) + 1e-3
            clock.now += in_nanoseconds(bucket.debt_s)
            assert bucket.debt_s == 0.0
            bucket.spend(tokens)
            emitted += tokens


def in_nanoseconds(seconds: float) -> float:
    """As RetryInfo carries it."""
    return int(seconds * 1e9) / 1e9


def burst_of(limits: Limits) -> float:
    return limits.burst_tokens or 10 * limits.tokens_per_s
