"""Options of the synthetic engine become variables of single services, and nonsense is refused by the option's name."""

from pathlib import Path
from typing import Any

import pytest

from outrider.cli.stack import StackOptions, services
from outrider.cli.synthetic import SyntheticOptions, with_draft
from outrider.config import load
from outrider.errors import InvalidArgument
from outrider.replica_config import DraftConfig, ReplicaConfig


@pytest.mark.parametrize(
    ("options", "option", "words"),
    [
        (SyntheticOptions(target_ms="fast"), "--synthetic-target", "must be milliseconds such as 20.*got 'fast'"),
        (SyntheticOptions(draft_ms="-2"), "--synthetic-draft", "must be milliseconds such as 20.*got '-2'"),
        (SyntheticOptions(target_ms=""), "--synthetic-target", "must be milliseconds"),
    ],
)
def test_times_that_make_no_sense_are_refused(options: SyntheticOptions, option: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        options.check(synthetic=True)
    assert caught.value.field == option


@pytest.mark.parametrize("name", ["target_ms", "draft_ms", "acceptance"])
def test_an_option_without_the_engine_is_refused(name: str) -> None:
    value: dict[str, Any] = {name: "1"}
    with pytest.raises(InvalidArgument, match="needs --engine synthetic"):
        SyntheticOptions(**value).check(synthetic=False)
    SyntheticOptions().check(synthetic=False)


def test_an_option_wins_over_the_environment_and_that_over_the_defaults() -> None:
    def times(options: SyntheticOptions, environment: dict[str, str]) -> list[str]:
        made = options.variables(environment)
        return [made[name]["OUTRIDER_SYNTHETIC_PASS_MS"] for name in ("target", "draft")]

    given = {"OUTRIDER_SYNTHETIC_PASS_MS": "7"}
    assert times(SyntheticOptions(), {}) == ["20", "2"]
    assert times(SyntheticOptions(), given) == ["7", "7"]
    assert times(SyntheticOptions("1:5,9:6", "0"), given) == ["1:5,9:6", "0"]


def test_each_service_gets_what_it_can_read() -> None:
    """The variables of the processes load as their configurations."""
    variables = SyntheticOptions("30", "3", 0.5).variables({})
    engine = {"OUTRIDER_ENGINE": "synthetic"}
    stack = services(StackOptions("t", "d", Path("logs"), port=0, environment=engine, variables=variables))
    target, draft, orchestrator = ({**engine, **service.variables} for service in stack)
    assert load(ReplicaConfig, target).synthetic_pass_ms.seconds(1) == 0.03
    config = load(DraftConfig, draft)
    assert (config.model, config.synthetic_pass_ms.seconds(1), config.synthetic_acceptance) == ("d", 0.003, 0.5)
    assert "OUTRIDER_SYNTHETIC_PASS_MS" not in orchestrator


def test_a_draft_that_is_not_named_takes_the_folder_of_the_target() -> None:
    assert with_draft("folder", None) == "folder"
    assert with_draft("folder", "none") == "none"
    assert with_draft(None, None) is None, "the default pair"
