"""The order of windows: rounds, rotation, and prompts that no cache has seen."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from bench.speculating.plan import Load
from bench.traffic import CLASSES, prompt_ids, shortened, warmer
from bench.windows import rotated, windows
from tests.unit.bench.measured import CODE, LONG


class Letters:
    """A tokenizer of characters."""

    def render_chat(self, messages: list[Mapping[str, str]]) -> list[int]:
        return [ord(letter) for message in messages for letter in message["content"]]


LETTERS: Any = Letters()


def test_every_number_of_sessions_gets_its_rounds_of_every_class() -> None:
    plan = list(windows({1: 2, 16: 1}, (CODE, LONG)))
    counted = Counter((one.sessions, one.traffic.name) for one in plan)
    assert counted == {(1, "code"): 2, (1, "long answer"): 2, (16, "code"): 1, (16, "long answer"): 1}


@pytest.mark.parametrize("systems", [2, 3])
def test_every_system_comes_first_equally_often(systems: int) -> None:
    """In as many rounds as there are systems, for each class."""
    names = "ABC"[:systems]
    firsts = Counter((one.traffic.name, rotated(names, one.turn)[0]) for one in windows({4: systems}, CLASSES))
    assert set(firsts.values()) == {1}
    assert len(firsts) == systems * len(CLASSES)


def test_rotation_keeps_everybody() -> None:
    assert [rotated("ABC", turn) for turn in range(4)] == [list("ABC"), list("BCA"), list("CAB"), list("ABC")]


def test_no_prompt_comes_twice() -> None:
    plan = list(windows({1: 3, 4: 3, 16: 3, 64: 1}, CLASSES))
    prompts = [request.ids for one in plan for request in one.requests(LETTERS)]
    assert len(set(prompts)) == len(prompts)


def test_prompts_differ_before_a_cache_could_hold_a_block() -> None:
    """The number stands at the beginning, and always has the same length."""
    texts = {traffic.text(0, number) for traffic in CLASSES for number in (0, 99999)}
    assert {text[: len("Note 00000. ")] for text in texts} == {"Note 00000. ", "Note 99999. "}


def test_a_window_asks_for_the_length_of_its_class() -> None:
    one = next(windows({4: 1}, (LONG,)))
    assert [request.new_tokens for request in one.requests(LETTERS)] == [21] * 4


def test_every_request_of_a_run_has_a_seed_of_its_own_and_its_class_s_temperature() -> None:
    plan = list(windows({1: 2, 16: 2}, (CODE, warmer(LONG, 0.8))))
    requests = [request for one in plan for request in one.requests(LETTERS)]
    assert len({request.seed for request in requests}) == len(requests)
    assert {(request.new_tokens, request.temperature) for request in requests} == {(11, 0.0), (21, 0.8)}


def test_sessions_of_a_window_take_turns_with_the_texts() -> None:
    texts = [prompt_ids(LETTERS, CODE, choice, 0)[-1] for choice in range(3)]
    assert texts == [ord("a"), ord("b"), ord("a")]


def test_a_quick_run_asks_the_same_for_less() -> None:
    quick = shortened(CLASSES, 4)
    assert [one.new_tokens for one in quick] == [8, 32, 16, 16]
    assert [one.texts for one in quick] == [one.texts for one in CLASSES]


def test_a_class_at_another_temperature_says_so() -> None:
    assert warmer(CODE, 0.8).name == "code, 0.8"
    assert warmer(CODE, 0.0).name == "code, 0"


def test_numbers_of_sessions_of_a_load_have_prompts_and_lengths_of_their_own() -> None:
    plan = Load({1: 2, 4: 1}, {1: 1, 4: 10}).windows((CODE, LONG))
    counted = Counter((one.sessions, one.traffic.name, one.traffic.new_tokens) for one in plan)
    assert counted[(1, "code, 0", 11)] == counted[(1, "long answer, 0.8", 21)] == 2
    assert counted[(4, "code, 0.8", 1)] == 1
    prompts = [request.ids for one in plan for request in one.requests(LETTERS)]
    assert len(set(prompts)) == len(prompts)
