"""Recorded metrics, real Prometheus, the built manifests and the simulator: the pools do what the docs promise.

Three recordings of real services: the targets' passes are the bottleneck, the drafts' are, the targets' cache is.
"""

import dataclasses
from itertools import pairwise

import pytest

from tests.deploy.autoscaling import Scaling
from tests.deploy.autoscaling_recorded import FOLDER, parsed
from tests.deploy.autoscaling_replay import Moment, Replay, Signals, Sizes
from tests.deploy.autoscaling_results import (
    CASES,
    QUIET_S,
    SCRIPT,
    changes,
    gone,
    result,
    rules,
    scalings,
    signals,
    table,
)
from tests.deploy.manifests import ROOT

PLACE = {"target": 0, "draft": 1, "cache": 0}
"""Of the pool that is the bottleneck, in sizes."""
HOUR_S = 3600


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[Sizes, Signals]]:
    """What Prometheus makes of all recordings."""
    return signals(tmp_path_factory.mktemp("prometheus"))


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scaling, Scaling]:
    """Targets and drafts as the manifests have them."""
    return scalings(tmp_path_factory.mktemp("built"))


def sizes(moments: list[Moment], case: str) -> list[int]:
    """Of the pool that is the bottleneck, step by step."""
    return [moment.sizes[PLACE[case]] for moment in moments]


def turns(found: list[int]) -> int:
    """How often a pool that grew shrinks, or the other way round."""
    steps = [after - before for before, after in pairwise(found) if after != before]
    return sum(before * after < 0 for before, after in pairwise(steps))


def test_recordings_are_small_and_of_the_pools_that_their_names_say() -> None:
    paths = sorted(FOLDER.glob("*.txt"))
    assert sum(path.stat().st_size for path in paths) < 300_000
    assert {path.stem for path in paths} == {parsed(path.read_text()).name for path in paths}
    assert [path.read_text() for path in paths] == [parsed(path.read_text()).written() for path in paths]


@pytest.mark.parametrize("case", CASES)
def test_every_rule_has_a_number_at_every_step_of_a_recording(
    recorded: dict[str, dict[Sizes, Signals]], case: str
) -> None:
    """From the first scrape on, idle or not; and each is 0 before the first request and a while after the last."""
    for found in recorded[case].values():
        assert set(found.values) == set(rules())
        for values in found.values.values():
            assert None not in values
            assert values[0] == values[-1] == 0


@pytest.mark.parametrize("case", CASES)
def test_the_bottleneck_grows_soon_and_the_other_pool_does_not(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling], case: str
) -> None:
    moments = Replay(recorded[case], *pools).run(SCRIPT)
    found, other = result(moments), 1 - PLACE[case]
    assert found.light == (2, 2)
    assert found.most[PLACE[case]] > 2
    assert {moment.sizes[other] for moment in moments} == {2}
    assert found.grows_after_s <= 120


@pytest.mark.parametrize("case", CASES)
def test_it_shrinks_by_a_pod_a_minute_after_five_quiet_minutes(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling], case: str
) -> None:
    moments = Replay(recorded[case], *pools).run(SCRIPT)
    times = gone(moments, QUIET_S)
    assert 300 <= times[0] - QUIET_S <= 420
    assert all(later - earlier >= 60 for earlier, later in pairwise(times))
    quiet = [moment.sizes[PLACE[case]] for moment in moments if moment.now >= times[0]]
    assert {before - after for before, after in pairwise(quiet)} == {0, 1}
    assert moments[-1].sizes == (2, 2)


@pytest.mark.parametrize("phase", ["light", "overload"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("begin", [(2, 2), (5, 5)])
def test_under_a_steady_load_no_pool_flaps(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling], case: str, phase: str, begin: Sizes
) -> None:
    """Two hours, from the least size and from one that is too large: it comes to rest, and stays there."""
    moments = Replay(recorded[case], *pools, begin=begin).run([(phase, 2 * HOUR_S)])
    assert not changes(moments, HOUR_S)
    for place in (0, 1):
        assert turns([moment.sizes[place] for moment in moments]) <= 1


@pytest.mark.parametrize("case", CASES)
def test_bounds_hold_even_where_every_number_asks_for_more(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling], case: str
) -> None:
    for most in (8, 3):
        target, draft = (dataclasses.replace(pool, most=most) for pool in pools)
        for moment in Replay(recorded[case], target, draft).run(SCRIPT):
            assert all(2 <= size <= most for size in moment.sizes)


@pytest.mark.parametrize("case", CASES)
def test_without_any_numbers_the_pools_stay_as_they_are(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling], case: str
) -> None:
    moments = Replay(recorded[case], *pools, begin=(5, 4), blind=frozenset(rules())).run(SCRIPT)
    assert {moment.sizes for moment in moments} == {(5, 4)}


@pytest.mark.parametrize("case", CASES)
def test_without_one_of_its_numbers_a_pool_does_not_shrink(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling], case: str
) -> None:
    for rule in rules():
        blind = frozenset({rule})
        place = 0 if "target" in rule else 1
        moments = Replay(recorded[case], *pools, begin=(5, 5), blind=blind).run(SCRIPT)
        assert all(after.sizes[place] >= before.sizes[place] for before, after in pairwise(moments))


@pytest.mark.parametrize("case", CASES)
def test_pods_that_still_load_a_model_are_not_asked_for_twice(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling], case: str
) -> None:
    """With four minutes to start the pool becomes no larger than what its numbers ask of the pods that serve."""
    slow = result(Replay(recorded[case], *pools, start_s=240).run(SCRIPT)).most[PLACE[case]]
    quick = result(Replay(recorded[case], *pools, start_s=0).run(SCRIPT)).most[PLACE[case]]
    assert slow <= quick + 1


def test_the_table_of_the_docs_is_what_the_replay_comes_to(
    recorded: dict[str, dict[Sizes, Signals]], pools: tuple[Scaling, Scaling]
) -> None:
    lines = (ROOT / "docs" / "kubernetes" / "autoscaling.md").read_text().splitlines()
    expected = table(recorded, *pools)
    start = lines.index(expected[0]) if expected[0] in lines else 0
    assert lines[start : start + len(expected)] == expected, "python -m tests.deploy.autoscaling_results"
