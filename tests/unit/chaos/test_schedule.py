"""Faults are a function of the seed, cover every kind and every place alike, and leave somebody to serve."""

from collections import Counter

import pytest

from tests.chaos.faults import fault_of
from tests.chaos.schedule import PROCESSES, Kind, Place, schedule


def test_equal_seeds_plan_equal_faults_and_a_longer_run_begins_like_a_shorter_one() -> None:
    assert schedule(1, 200) == schedule(1, 200)
    assert schedule(1, 200)[:20] == schedule(1, 20)
    assert schedule(1, 20) != schedule(2, 20)


@pytest.mark.parametrize("seed", range(5))
def test_a_tenth_of_the_default_length_has_every_kind(seed: int) -> None:
    assert {planned.kind for planned in schedule(seed, 20)} == set(Kind)


@pytest.mark.parametrize("seed", range(5))
def test_every_kind_comes_equally_often_and_within_it_every_place(seed: int) -> None:
    planned = schedule(seed, 200)
    kinds = Counter(each.kind for each in planned)
    assert max(kinds.values()) - min(kinds.values()) <= 1
    for kind in Kind:
        places = Counter(each.place for each in planned if each.kind is kind)
        assert max(places.values()) - min(places.values()) <= 1
    kills = {each.place for each in planned if each.kind is Kind.KILL}
    assert kills == set(PROCESSES)


def test_targets_share_a_group_and_so_do_orchestrators_but_drafts_may_all_be_gone() -> None:
    groups = {place: place.group for place in (*PROCESSES, Place("redis"))}
    assert groups[Place("target", 0)] == groups[Place("target", 1)]
    assert groups[Place("orchestrator", 0)] == groups[Place("orchestrator", 1)]
    assert groups[Place("draft", 0)] != groups[Place("draft", 1)]
    assert len(set(groups.values())) == 5


def test_everything_that_is_planned_can_be_done() -> None:
    assert {type(fault_of(planned)).__name__ for planned in schedule(3, 100)} >= {"Kill", "Liar", "SmallKV", "HalfOpen"}
