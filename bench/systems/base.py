"""What the benchmark asks of a system: answer one request of a fixed length and say when its tokens came.

It does not know how a system is started or reached.
"""

from dataclasses import dataclass
from typing import Protocol

from bench.processes import BenchError


@dataclass(frozen=True, slots=True)
class Request:
    """A greedy answer of exactly ``new_tokens`` tokens to these ids, without speculation."""

    ids: tuple[int, ...]
    new_tokens: int


@dataclass(frozen=True, slots=True)
class Timing:
    """When a request was sent and when its first and its last token came, seconds of the monotonic clock."""

    sent: float
    first: float
    last: float
    tokens: int


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
