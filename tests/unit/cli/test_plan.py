"""``outrider plan``: numbers are read or refused by name, the ways are those of the formulas, and what is measured on a
stack gives back the costs that made it."""

import json
import random
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.cli.main import app
from outrider.cli.measure import Seen, acceptance, line, numbers
from outrider.cli.plan import ways
from outrider.cli.plan_numbers import Given, Numbers, extended, parse_acceptance, parse_passes
from outrider.errors import InvalidArgument, Unavailable
from outrider.pass_times import PassTimes

NUMBERS = Numbers(PassTimes(((1, 2.0),)), PassTimes(((1, 20.0), (16, 22.0))), (0.8, 0.64, 0.5, 0.4, 0.3), 0.005, 0.001)
GIVEN = ["--t-draft", "2", "--t-verify", "1:20,16:22", "--acceptance", "0.8", "--rtt-draft", "5"]


def given(**changes: str | float | int | None) -> Given:
    values: dict[str, Any] = {"t_draft": "2", "t_verify": "20", "acceptance": "0.8"}
    values |= {"rtt_draft": None, "rtt_target": None, "sessions": 1, "max_draft_tokens": 4} | changes
    return Given(**values)


def test_acceptance_is_one_chance_or_a_list_by_position() -> None:
    assert parse_acceptance("x", "0.5", 3) == pytest.approx((0.5, 0.25, 0.125, 0.0625))
    assert parse_acceptance("x", "0.8,0.6", 3) == pytest.approx((0.8, 0.6, 0.45, 0.3375)), "on in the last ratio"
    assert parse_acceptance("x", "0.9,0.8,0.7,0.6,0.5", 2) == pytest.approx((0.9, 0.8, 0.7))
    assert extended((0.4, 0.0), 4) == (0.4, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("text", ["", "often", "1.2", "-0.1", "nan", "0.5,0.6", "0.5,-1", "0.5,,0.4", "0.5,nan"])
def test_acceptance_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--acceptance: must be a number from 0 to 1, or a list"):
        parse_acceptance("--acceptance", text, 4)


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "2:3,1:4"])
def test_passes_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--t-draft: must be"):
        parse_passes("--t-draft", text)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"t_draft": None}, "--t-draft: is needed unless --address"),
        ({"t_verify": None}, "--t-verify: is needed unless --address"),
        ({"acceptance": None}, "--acceptance: is needed unless --address"),
        ({"rtt_draft": -1.0}, "--rtt-draft: must be 0 to 60000 milliseconds, got -1"),
        ({"rtt_target": float("nan")}, "--rtt-target: must be 0 to 60000 milliseconds, got nan"),
    ],
)
def test_what_is_missing_or_wrong_is_named(changes: dict[str, str | float | None], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        given(**changes).numbers(None)


def test_what_is_given_goes_before_what_is_measured() -> None:
    live = given(t_draft=None, t_verify=None, acceptance=None, rtt_draft=1.5).numbers(NUMBERS)
    assert (live.draft, live.target, live.acceptance) == (NUMBERS.draft, NUMBERS.target, NUMBERS.acceptance)
    assert (live.rtt_draft_s, live.rtt_target_s) == (0.0015, 0.001)


def test_looking_ahead_is_never_worse_than_its_hits_make_it_and_takes_the_outcomes_that_pay() -> None:
    found = ways(NUMBERS, 4)
    assert [(way.k, way.outcomes > 0) for way in found] == [(k, ahead) for k in (1, 2, 3, 4) for ahead in (False, True)]
    for serial, ahead in zip(found[::2], found[1::2]):
        assert serial.tokens == ahead.tokens
        assert 0 < ahead.hit_rate <= 1
        assert ahead.rate > serial.rate, "the draft is cheap and far"


def test_the_command_prints_a_table_and_a_verdict() -> None:
    result = CliRunner().invoke(app, ["plan", *GIVEN])
    assert result.exit_code == 0
    assert "target alone: 50.0 tokens/s a session" in result.stdout
    assert "best: looking ahead, k = 6" in result.stdout


def test_it_says_when_the_target_alone_is_best() -> None:
    result = CliRunner().invoke(app, ["plan", "--t-draft", "30", "--t-verify", "20", "--acceptance", "0.3"])
    assert "best: the target alone; " in result.stdout


def test_json_has_every_way() -> None:
    result = CliRunner().invoke(app, ["plan", *GIVEN, "--max-draft-tokens", "3", "--sessions", "4", "--json"])
    found = json.loads(result.stdout)
    assert found["sessions"] == 4
    assert [way["k"] for way in found["ways"]] == [1, 1, 2, 2, 3, 3]
    assert found["best"]["speedup"] == max(way["speedup"] for way in found["ways"])
    assert found["ways"][0]["tokens_per_round"] == 1.8


def test_bad_input_exits_with_2_and_names_the_option() -> None:
    result = CliRunner().invoke(app, ["plan", "--t-draft", "2"])
    assert result.exit_code == 2
    assert "--t-verify" in result.stderr


def rounds(k: int, chance: float, count: int = 400) -> list[Seen]:
    """Of a stack with a draft of 3 ms a token, 1 ms away, and a target of 9 ms and 0.5 ms a row, 2 ms away."""
    luck = random.Random(k)
    accepted = [next((n for n in range(k) if luck.random() >= chance), k) for _ in range(count)]
    return [Seen(k, n, 0.001 + 0.003 * k, 0.002 + 0.009 + 0.0005 * (1 + k)) for n in accepted]


def test_measured_rounds_give_back_the_costs_behind_them() -> None:
    """False alarm: 0.09 is more than four standard errors of a share of 1 200 rounds, the least there are."""
    seen = [one for k in (1, 2, 4, 8) for one in rounds(k, 0.7)]
    found = numbers([0.0095] * 50 + [0.5], seen, 8)
    assert found.rtt_draft_s == pytest.approx(0.001)
    assert found.rtt_target_s == pytest.approx(0.002)
    assert found.draft.seconds(1) == pytest.approx(0.003)
    assert [found.target.seconds(rows) for rows in (1, 3, 9)] == pytest.approx([0.0095, 0.0105, 0.0135])
    assert found.acceptance[:2] == pytest.approx((0.7, 0.49), abs=0.09)
    assert len(found.acceptance) == 9


def test_measured_acceptance_never_rises() -> None:
    seen = [Seen(1, 0, 0.01, 0.01)] * 9 + [Seen(2, 2, 0.01, 0.01)]
    assert acceptance(seen, 3)[:2] == (0.1, 0.1)


def test_one_length_gives_a_flat_line() -> None:
    assert line([(3.0, 0.5)]) == (0.5, 0.0)
    assert line([(1.0, 1.0), (3.0, 2.0)]) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(
    ("plain", "seen"), [([0.01], []), ([], [Seen(1, 1, 0.01, 0.01)]), ([0.01], [Seen(1, 1, 0, 0.01)])]
)
def test_a_stack_without_a_draft_gives_no_plan(plain: list[float], seen: list[Seen]) -> None:
    with pytest.raises(Unavailable, match="is a draft connected"):
        numbers(plain, seen, 4)
