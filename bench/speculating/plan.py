"""What ``bench/speculation.py`` measures: names of the ways to answer, cells, and how often each. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.traffic import TrafficClass, shortened, warmer
from bench.windows import Window, windows

OFF = "target only"
AGAIN = "target only again"
"""The same requests once more: what differs between the two is the machine's noise."""
FIXED = {1: "k = 1", 2: "k = 2", 4: "k = 4"}
SERIAL = "AUTO serial"
AHEAD = "AUTO look-ahead"
COPIES = "AUTO, no draft"
RANDOM = "AUTO, random draft"
SLOW = "AUTO, slow draft"
VLLM, VLLM_DRAFT, VLLM_NGRAM = "vLLM", "vLLM draft model", "vLLM ngram"

TEMPERATURES = (0.0, 0.8)
SETTLED_ROUNDS = 10
"""Rounds after which AUTO must have left a draft that does not help."""

Rounds = Mapping[int, int]
"""Rounds of each number of sessions."""
_SERIALS_APART = 100


@dataclass(frozen=True, slots=True)
class Load:
    """How often each number of sessions is measured, and what answers are shortened by there."""

    rounds: Rounds
    divisors: Mapping[int, int]

    def windows(self, classes: tuple[TrafficClass, ...]) -> list[Window]:
        """All cells: each class at each temperature and number of sessions. No prompt comes twice."""
        return [
            window
            for index, (sessions, count) in enumerate(self.rounds.items())
            for window in windows(
                {sessions: count}, at_temperatures(classes, self.divisors[sessions]), index * _SERIALS_APART
            )
        ]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    pair: Load
    peers: Load
    misfits: Rounds
    round_trips_ms: Mapping[float, int]
    """Round trips to the draft, and how many answers of each way: many where a figure is asked for, since an answer of
    128 tokens may be worth a tenth more or less than the acceptance says."""
    acceptances: tuple[float, ...]
    sessions: Rounds
    synthetic_tokens: int


FULL = Sizes(
    pair=Load({1: 2, 4: 1, 16: 1}, {1: 1, 4: 2, 16: 2}),
    peers=Load({1: 1, 4: 1, 16: 1}, {1: 2, 4: 4, 16: 4}),
    misfits={1: 3, 4: 2},
    round_trips_ms={0: 8, 1: 2, 5: 2, 10: 8, 20: 2, 50: 2},
    acceptances=(0.3, 0.5, 0.65, 0.8, 0.9, 0.95),
    sessions={1: 1, 4: 2, 16: 2, 64: 1},
    synthetic_tokens=128,
)
QUICK = Sizes(
    pair=Load({1: 1, 4: 1}, {1: 2, 4: 4}),
    peers=Load({1: 1}, {1: 4}),
    misfits={1: 1, 4: 1},
    round_trips_ms={0: 1, 10: 1, 50: 1},
    acceptances=(0.3, 0.8, 0.95),
    sessions={1: 1, 16: 1},
    synthetic_tokens=64,
)


def at_temperatures(classes: tuple[TrafficClass, ...], divisor: int) -> tuple[TrafficClass, ...]:
    """Each class, shortened, at each temperature."""
    return tuple(warmer(one, temperature) for one in shortened(classes, divisor) for temperature in TEMPERATURES)
