"""What ``outrider up --engine synthetic`` tells each service, and which folders it names. It knows variables and
options, not what becomes of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from outrider.errors import InvalidArgument
from outrider.pass_times import PassTimes

_PASS_MS = "OUTRIDER_SYNTHETIC_PASS_MS"


@dataclass(frozen=True, slots=True)
class SyntheticOptions:
    """Options of the command line; None is not given."""

    target_ms: str | None = None
    draft_ms: str | None = None
    acceptance: float | None = None

    def check(self, synthetic: bool) -> None:
        """Raises InvalidArgument, naming the option, for one that makes no sense."""
        given = {
            "--synthetic-target": self.target_ms,
            "--synthetic-draft": self.draft_ms,
            "--synthetic-acceptance": self.acceptance,
        }
        for option, value in given.items():
            if value is not None and not synthetic:
                raise InvalidArgument(option, "needs --engine synthetic")
            if isinstance(value, str):
                _check_times(option, value)

    def variables(self, environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Variables of each service: an option first, then the environment, then 20 and 2 milliseconds."""
        draft = {_PASS_MS: self.draft_ms or environment.get(_PASS_MS, "2")}
        if self.acceptance is not None:
            draft["OUTRIDER_SYNTHETIC_ACCEPTANCE"] = str(self.acceptance)
        return {"target": {_PASS_MS: self.target_ms or environment.get(_PASS_MS, "20")}, "draft": draft}


def _check_times(option: str, text: str) -> None:
    try:
        PassTimes.parse(text)
    except ValueError as error:
        raise InvalidArgument(option, f"must be {error}, got {text!r}") from None


def with_draft(target: str | None, draft: str | None) -> str | None:
    """The draft's folder when only the target's is named: a synthetic draft needs nothing but the same tokenizer."""
    return target if draft is None else draft
