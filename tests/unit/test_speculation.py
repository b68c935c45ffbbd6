"""How many draft tokens a round asks for."""

import pytest

from orchestrator.speculation import Mode, Policy, Speculation


@pytest.mark.parametrize(
    ("speculation", "wanted"),
    [(Speculation(), 3), (Speculation(Mode.OFF), 0), (Speculation(Mode.FIXED, 7), 7), (Speculation(Mode.FIXED, 1), 1)],
)
def test_the_mode_decides(speculation: Speculation, wanted: int) -> None:
    assert Policy(speculation, automatic=3).draft_tokens(remaining=100) == wanted


@pytest.mark.parametrize(("remaining", "tokens"), [(0, 0), (1, 0), (2, 1), (5, 4), (8, 7), (9, 7)])
def test_the_last_token_of_a_round_is_the_targets_own(remaining: int, tokens: int) -> None:
    assert Policy(Speculation(Mode.FIXED, 7), automatic=3).draft_tokens(remaining) == tokens


def test_an_absent_draft_makes_auto_ask_for_nothing() -> None:
    assert Policy(Speculation(), automatic=0).draft_tokens(100) == 0
