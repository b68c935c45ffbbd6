"""Orchestrators are asked in turn, and those that failed lately last."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from outrider.client.addresses import Addresses


class Hands:
    """A clock that a test turns."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_requests_are_spread_evenly() -> None:
    addresses = Addresses(["a", "b", "c"])
    assert Counter(addresses.choose(()) for _ in range(30)) == {"a": 10, "b": 10, "c": 10}


def test_one_that_failed_is_asked_last_for_longer_each_time_until_it_works() -> None:
    hands = Hands()
    addresses = Addresses(["a", "b"], hands)
    for away_s in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
        addresses.failed("a")
        hands.now += away_s - 0.1
        assert {addresses.choose(()) for _ in range(4)} == {"b"}
        hands.now += 0.1
        assert {addresses.choose(()) for _ in range(4)} == {"a", "b"}
    addresses.worked("a")
    addresses.failed("a")
    hands.now += 1.0
    assert {addresses.choose(()) for _ in range(4)} == {"a", "b"}


def test_a_session_stays_unless_its_orchestrator_failed_or_was_tried() -> None:
    addresses = Addresses(["a", "b"], Hands())
    assert {addresses.choose((), "b") for _ in range(4)} == {"b"}
    assert addresses.choose(("b",), "b") == "a"
    addresses.failed("b")
    assert addresses.choose((), "b") == "a"
    assert addresses.choose((), "elsewhere") == "a"


@given(st.sets(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_whatever_failed_one_that_was_not_tried_is_chosen_if_there_is_one(tried: set[str], failed: list[str]) -> None:
    addresses = Addresses(list("abcd"), Hands())
    for each in failed:
        addresses.failed(each)
    chosen = addresses.choose(tried)
    assert chosen not in tried or len(tried) == 4
