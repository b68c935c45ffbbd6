"""What ``bench/speculation.py`` measures: names of the ways to answer, cells, and how often each. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.traffic import CLASSES, COPYING, TrafficClass, shortened, warmer

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


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. Divisors shorten answers."""

    pair: Rounds
    peers: Rounds
    misfits: Rounds
    divisor: int
    peer_divisor: int
    round_trips_ms: tuple[float, ...]
    acceptances: tuple[float, ...]
    sessions: Rounds
    synthetic_rounds: int
    synthetic_tokens: int


FULL = Sizes(
    pair={1: 4, 4: 2, 16: 1},
    peers={1: 1, 4: 1, 16: 1},
    misfits={1: 3, 4: 2},
    divisor=1,
    peer_divisor=2,
    round_trips_ms=(0, 1, 5, 10, 20, 50),
    acceptances=(0.3, 0.5, 0.65, 0.8, 0.9, 0.95),
    sessions={1: 1, 4: 2, 16: 2, 64: 1},
    synthetic_rounds=2,
    synthetic_tokens=128,
)
QUICK = Sizes(
    pair={1: 1, 4: 1, 16: 1},
    peers={1: 1, 4: 1, 16: 1},
    misfits={1: 1, 4: 1},
    divisor=4,
    peer_divisor=8,
    round_trips_ms=(0, 10, 50),
    acceptances=(0.3, 0.8, 0.95),
    sessions={1: 1, 16: 1},
    synthetic_rounds=1,
    synthetic_tokens=64,
)


def at_temperatures(classes: tuple[TrafficClass, ...], divisor: int) -> tuple[TrafficClass, ...]:
    """Each class, shortened, at each temperature."""
    return tuple(warmer(one, temperature) for one in shortened(classes, divisor) for temperature in TEMPERATURES)


def everyday(divisor: int) -> tuple[TrafficClass, ...]:
    """The four classes at each temperature."""
    return at_temperatures(CLASSES, divisor)


def copying(divisor: int) -> tuple[TrafficClass, ...]:
    """Copying at each temperature."""
    return at_temperatures((COPYING,), divisor)
