"""The order of an interleaved benchmark: windows of one system each, so that all meet the same hours of a machine.

A window is one class of traffic, one number of sessions and one round; every system answers it in turn, and who
comes first rotates. It knows order and arithmetic; it starts nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bench.systems.base import Request, Timing
from bench.traffic import TrafficClass, prompt_ids
from outrider.tokenizer import Tokenizer

T = TypeVar("T")
_NUMBERS_APART = 100


@dataclass(frozen=True, slots=True)
class Window:
    """``serial`` tells windows apart: it gives each a set of prompts of its own."""

    serial: int
    sessions: int
    round_number: int
    turn: int
    traffic: TrafficClass

    def requests(self, tokenizer: Tokenizer) -> list[Request]:
        """What every system is asked in this window, one request per session."""
        first = self.serial * _NUMBERS_APART
        return [
            Request(
                prompt_ids(tokenizer, self.traffic, self.round_number + i, first + i),
                self.traffic.new_tokens,
                self.traffic.temperature,
                first + i,
            )
            for i in range(self.sessions)
        ]


def windows(rounds: Mapping[int, int], classes: Sequence[TrafficClass], serial: int = 0) -> Iterator[Window]:
    """Windows of a run, with serials after ``serial``. ``rounds`` says how many each number of sessions gets."""
    for sessions, count in rounds.items():
        for round_number in range(count):
            for index, traffic in enumerate(classes):
                serial += 1
                yield Window(serial, sessions, round_number, round_number + index, traffic)


def rotated(items: Sequence[T], turn: int) -> list[T]:
    """The items, begun at another one each turn."""
    start = turn % len(items)
    return [*items[start:], *items[:start]]


@dataclass(frozen=True, slots=True)
class Measured:
    """One window of one system."""

    system: str
    window: Window
    timings: tuple[Timing, ...]

    @property
    def seconds(self) -> float:
        """From the first request to the last token."""
        return max(timing.last for timing in self.timings) - min(timing.sent for timing in self.timings)

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(timing.tokens for timing in self.timings)
