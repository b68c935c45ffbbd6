"""The simulator computes what Kubernetes' documentation says of its autoscaler."""

import pytest

from tests.deploy.autoscaling import Autoscaler, Direction, Metric, Policy, Scaling, wanted

ANY = Direction(0, (Policy("Percent", 1000, 15),))


def scaling(up: Direction = ANY, down: Direction = ANY, least: int = 1, most: int = 100, metrics: int = 1) -> Scaling:
    return Scaling("pool", least, most, tuple(Metric(f"m{n}", 100) for n in range(metrics)), up, down)


def sizes(scaled: Scaling, values: list[float | None], current: int, ready: int | None = None) -> list[int]:
    """The size after each step; all pods are ready unless a number is given."""
    autoscaler, found = Autoscaler(scaled), []
    for step, value in enumerate(values):
        values_now = {metric.rule: value for metric in scaled.metrics}
        current = autoscaler.size(step * 15, values_now, current, current if ready is None else ready)
        found.append(current)
    return found


@pytest.mark.parametrize(
    ("value", "size"), [(0.2, 8), (0.05, 2), (0.11, 4), (0.09, 4), (0.112, 5), (0.0, 1), (0.0999999, 4)]
)
def test_the_size_grows_in_proportion_outside_of_a_tenth(value: float, size: int) -> None:
    """The documentation's own: 200m against 100m doubles, 50m halves, within 0.1 nothing happens."""
    assert sizes(scaling(), [value], 4) == [size]


def test_only_pods_that_are_ready_count_as_those_that_made_the_value() -> None:
    assert wanted(scaling(), {"m0": 0.2}, current=6, ready=3) == 6


def test_the_metric_that_asks_for_most_decides() -> None:
    assert wanted(scaling(metrics=2), {"m0": 0.05, "m1": 0.2}, 4, 4) == 8


def test_without_a_part_of_the_numbers_a_pool_may_grow_but_not_shrink() -> None:
    both = scaling(metrics=2)
    assert wanted(both, {"m0": 0.2, "m1": None}, 4, 4) == 8
    assert wanted(both, {"m0": 0.05, "m1": None}, 4, 4) is None
    assert wanted(both, {}, 4, 4) is None


def test_shrinking_takes_the_highest_recommendation_of_its_window_growing_the_lowest() -> None:
    calm = Direction(60, ANY.policies)
    assert sizes(scaling(down=calm), [0.1, 0.05, 0.05, 0.05, 0.05], 4) == [4, 4, 4, 4, 2]
    assert sizes(scaling(up=calm), [0.1, 0.2, 0.2, 0.2, 0.2], 4) == [4, 4, 4, 4, 8]


def test_one_bad_moment_neither_grows_nor_shrinks() -> None:
    """With two windows: neither the spike nor the calm before it decides alone."""
    both = scaling(up=Direction(30, ANY.policies), down=Direction(60, ANY.policies))
    assert sizes(both, [0.05, 0.4, 0.05, 0.05, 0.05, 0.05, 0.05], 4) == [4, 4, 4, 4, 4, 2, 2]


def test_policies_count_what_has_changed_within_their_period() -> None:
    """The documentation's own: 4 pods or a tenth of the pods in a minute, whichever is more."""
    down = Direction(0, (Policy("Pods", 4, 60), Policy("Percent", 10, 60)))
    assert sizes(scaling(down=down), [0.0] * 9, 80)[::4] == [72, 64, 57]
    assert sizes(scaling(down=down), [0.0] * 9, 20)[::4] == [16, 12, 8]
    slow = Direction(0, down.policies, "Min")
    assert sizes(scaling(down=slow), [0.0] * 9, 80)[::4] == [76, 72, 68]
    assert sizes(scaling(down=Direction(0, down.policies, "Disabled")), [0.0] * 3, 80) == [80, 80, 80]


def test_growing_may_double_in_a_minute_or_take_two_pods_at_once() -> None:
    up = Direction(0, (Policy("Percent", 100, 60), Policy("Pods", 2, 60)))
    assert sizes(scaling(up=up), [1.0] * 9, 1)[::4] == [3, 6, 12]
    assert sizes(scaling(up=up), [1.0] * 4, 1) == [3, 3, 3, 3]


def test_bounds_hold_whatever_the_numbers_say() -> None:
    assert sizes(scaling(least=2, most=6), [9.0, 9.0, 0.0, 0.0], 3) == [6, 6, 2, 2]
    assert sizes(scaling(least=2, most=6), [0.1], 9) == [6]
    assert sizes(scaling(least=2, most=6), [0.1], 1) == [2]
