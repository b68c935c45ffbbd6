"""What is left of a request's time, whatever streams it opens meanwhile. It knows neither streams nor replicas."""

import dataclasses
import time

from orchestrator.round_stream import StreamOptions
from outrider.errors import DeadlineExceeded

_CLOCK_S = 0.01
"""A call ends by its deadline up to so much before our own clock says so."""


def fresh(options: StreamOptions, opened: float) -> StreamOptions:
    """Options for a stream opened now: the deadline counts from the request's start."""
    if over(options, opened):
        raise DeadlineExceeded("the request's time is over")
    return dataclasses.replace(options, deadline_s=left(options, opened))


def left(options: StreamOptions, opened: float) -> float | None:
    """Seconds that a request has left; None for one without a deadline."""
    return None if options.deadline_s is None else options.deadline_s - (time.monotonic() - opened)


def over(options: StreamOptions, opened: float) -> bool:
    """Whether a request's time is over: what fails then is nobody's fault."""
    seconds = left(options, opened)
    return seconds is not None and seconds <= _CLOCK_S
