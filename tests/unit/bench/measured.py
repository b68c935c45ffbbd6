"""Measured windows out of plain numbers."""

from bench.systems.base import Timing
from bench.traffic import TrafficClass
from bench.windows import Measured, Window

CODE = TrafficClass("code", ("a", "b"), 11)
LONG = TrafficClass("long answer", ("c",), 21)


def timing(seconds: float, tokens: int, ttft_s: float = 0.5) -> Timing:
    """An answer that began at second 100."""
    return Timing(100.0, 100.0 + ttft_s, 100.0 + seconds, tokens)


def window(traffic: TrafficClass = CODE, sessions: int = 1, round_number: int = 0) -> Window:
    return Window(1, sessions, round_number, round_number, traffic)


def measured(system: str, at: Window, *seconds: float) -> Measured:
    """One answer per given duration, of the class's length."""
    return Measured(system, at, tuple(timing(one, at.traffic.new_tokens) for one in seconds))
