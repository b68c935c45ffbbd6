"""What became of a request, and how an answer differs from the one that it should be. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from outrider.client import Answer
from outrider.errors import OutriderError, code_of


class Fate(StrEnum):
    """``REFUSED``: it ended in a clear status within its time, which is allowed. ``HUNG``: it did not end then."""

    ANSWERED = "answered"
    REFUSED = "refused"
    WRONG = "wrong"
    LOST = "lost"
    DOUBLED = "doubled"
    HUNG = "hung"


BAD = (Fate.WRONG, Fate.LOST, Fate.DOUBLED, Fate.HUNG)


@dataclass(frozen=True, slots=True)
class Expected:
    """The answer of the target alone in the quiet system."""

    token_ids: tuple[int, ...]
    text: str
    logprobs: tuple[float, ...]


def expected(answer: Answer) -> Expected:
    return Expected(answer.token_ids, answer.text, answer.logprobs)


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the common beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def compare(want: Sequence[object], got: Sequence[object]) -> Fate:
    """Whether some are missing at one place, some come twice in a row at one place, or it is something else."""
    if tuple(want) == tuple(got):
        return Fate.ANSWERED
    head = _shared(want, got)
    tail = _shared(want[::-1], got[::-1])
    if len(got) < len(want) and head + tail >= len(got):
        return Fate.LOST
    extra = len(got) - len(want)
    repeats = any(got[i : i + extra] == got[i + extra : i + 2 * extra] for i in range(len(want) - tail, head + 1))
    return Fate.DOUBLED if extra > 0 and head + tail >= len(want) and repeats else Fate.WRONG


def judge(want: Expected, got: Answer) -> tuple[Fate, str]:
    """The fate of a whole answer, and where it differs."""
    pairs: list[tuple[str, Sequence[object], Sequence[object]]] = [
        ("tokens", want.token_ids, got.token_ids),
        ("text", want.text, got.text),
        ("logprobs", want.logprobs, got.logprobs),
    ]
    for what, should, does in pairs:
        fate = compare(should, does)
        if fate is not Fate.ANSWERED:
            at = _shared(should, does)
            return fate, f"{what} differ at {at}: should be {should[at : at + 8]!r}, got {does[at : at + 8]!r}"
    return Fate.ANSWERED, ""


def judge_error(error: OutriderError) -> tuple[Fate, str]:
    """An error is clear when it says what the caller can do; what is INTERNAL never should be."""
    fate = Fate.WRONG if code_of(error) == "INTERNAL" else Fate.REFUSED
    return fate, f"{type(error).__name__}: {error.message}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request, between two seconds of the run."""

    request: int
    case: int
    turn: int
    draft_tokens: int | None
    fate: Fate
    detail: str = ""
    began_s: float = 0.0
    ended_s: float = 0.0
    losses: int = 0
    session_id: str = ""
