"""The numbers that a plan is made from: read from options, or measured, and checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from outrider.errors import InvalidArgument
from outrider.pass_times import MOST_MS, PassTimes
from outrider.throughput import Costs, even_acceptance

_ACCEPTANCE = "a number from 0 to 1, or a list of them that never rises, such as 0.8,0.65,0.5"


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a plan is made from. Times in seconds; acceptance at positions from 1, as the README defines it."""

    draft: PassTimes
    target: PassTimes
    acceptance: tuple[float, ...]
    rtt_draft_s: float = 0.0
    rtt_target_s: float = 0.0
    sessions: int = 1

    def costs(self) -> Costs:
        """For the formulas."""
        return Costs(self.draft.seconds, self.target.seconds, self.rtt_draft_s, self.rtt_target_s, self.sessions)


def extended(given: Sequence[float], most: int) -> tuple[float, ...]:
    """Acceptance at ``most`` + 1 positions, each one beyond those given in the ratio of the last two."""
    known = [1.0, *given][: most + 2]
    last = known[-1] / known[-2] if known[-2] else 0.0
    while len(known) < most + 2:
        known.append(known[-1] * last)
    return tuple(known[1:])


def parse_acceptance(option: str, text: str, most: int) -> tuple[float, ...]:
    """ "0.8": each token by itself; "0.8,0.7,0.6": at positions 1, 2, 3, and beyond in the ratio of the last two.

    Returns ``most`` + 1 positions. Raises InvalidArgument.
    """
    try:
        given = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidArgument(option, f"must be {_ACCEPTANCE}, got {text!r}") from None
    falling = all(later <= earlier for earlier, later in pairwise((1.0, *given)))
    if not (falling and given[-1] >= 0):
        raise InvalidArgument(option, f"must be {_ACCEPTANCE}, got {text!r}")
    return even_acceptance(given[0], most + 1) if len(given) == 1 else extended(given, most)


def parse_passes(option: str, text: str) -> PassTimes:
    """Times of passes. Raises InvalidArgument."""
    try:
        times = PassTimes.parse(text)
    except ValueError as error:
        raise InvalidArgument(option, f"must be {error}, got {text!r}") from None
    if times.points[0][1] <= 0:
        raise InvalidArgument(option, f"must be above 0 milliseconds, got {text!r}")
    return times


def _trip(option: str, milliseconds: float) -> float:
    """Seconds of a round trip. Raises InvalidArgument."""
    if not 0 <= milliseconds <= MOST_MS:  # what is no number is refused too
        raise InvalidArgument(option, f"must be 0 to {MOST_MS:g} milliseconds, got {milliseconds:g}")
    return milliseconds / 1000


@dataclass(frozen=True, slots=True)
class Given:
    """The options as they were typed; None where one was not given. Times in milliseconds."""

    t_draft: str | None
    t_verify: str | None
    acceptance: str | None
    rtt_draft: float | None
    rtt_target: float | None
    sessions: int
    max_draft_tokens: int

    def numbers(self, live: Numbers | None) -> Numbers:
        """What was given, and for the rest what was measured. Raises InvalidArgument."""
        for option, value in (("draft", self.t_draft), ("verify", self.t_verify)):
            self._needed(f"--t-{option}", value, live)
        self._needed("--acceptance", self.acceptance, live)
        base, most = live or Numbers(PassTimes(), PassTimes(), ()), self.max_draft_tokens
        return Numbers(
            base.draft if self.t_draft is None else parse_passes("--t-draft", self.t_draft),
            base.target if self.t_verify is None else parse_passes("--t-verify", self.t_verify),
            base.acceptance if self.acceptance is None else parse_acceptance("--acceptance", self.acceptance, most),
            base.rtt_draft_s if self.rtt_draft is None else _trip("--rtt-draft", self.rtt_draft),
            base.rtt_target_s if self.rtt_target is None else _trip("--rtt-target", self.rtt_target),
            self.sessions,
        )

    @staticmethod
    def _needed(option: str, value: str | None, live: Numbers | None) -> None:
        if value is None and live is None:
            raise InvalidArgument(option, "is needed unless --address names a live stack to measure")
