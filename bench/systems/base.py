"""What a benchmark asks of a system: answer one request of a fixed length and say which tokens came when.

It does not know how a system is started or reached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.processes import BenchError


@dataclass(frozen=True, slots=True)
class Request:
    """An answer of exactly ``new_tokens`` tokens to these ids. ``temperature`` 0 is greedy."""

    ids: tuple[int, ...]
    new_tokens: int
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Tokens that came at once, at a second of the monotonic clock; where the system tells, the draft tokens of the
    round behind them, how many of those were accepted, and how they came about."""

    at: float
    ids: tuple[int, ...]
    proposed: int = 0
    accepted: int = 0
    copied: bool = False
    prepared: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """When a request was sent and when its first and its last token came, seconds of the monotonic clock."""

    sent: float
    first: float
    last: float
    tokens: int
    steps: tuple[Step, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The answer."""
        return tuple(token for step in self.steps for token in step.ids)


def timed(sent: float, steps: Sequence[Step]) -> Timing:
    """The timing of an answer that came in these steps."""
    first, last = (steps[0].at, steps[-1].at) if steps else (0.0, 0.0)
    return Timing(sent, first, last, sum(len(step.ids) for step in steps), tuple(steps))


class System(Protocol):
    """A running system."""

    @property
    def name(self) -> str:
        """As tables and keys call it."""

    @property
    def settings(self) -> str:
        """How it runs, for the report."""

    @property
    def most_sessions(self) -> int:
        """Sessions that it can answer at once."""

    @property
    def roots(self) -> list[int]:
        """Its processes; what they started in turn is found by looking."""

    async def answer(self, request: Request) -> Timing:
        """Answer one request. Raises BenchError when that fails or the length is wrong."""


def complete(name: str, request: Request, timing: Timing) -> Timing:
    """The timing, when the answer is as long as it had to be. Raises BenchError otherwise."""
    if timing.tokens != request.new_tokens:
        raise BenchError(f"{name} answered {timing.tokens} tokens instead of {request.new_tokens}")
    return timing
