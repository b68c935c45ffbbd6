"""Waiting until a moment, although a sleep ends late: by a millisecond where many threads share few cores.

How late is learned and slept less; what is left then is waited for awake, giving way to other threads. It does not know
what is waited for.
"""

import time
from collections.abc import Callable

_SHARE = 0.125
"""Weight of the last sleep in what is known of them."""
_MOST_S = 0.002
"""Longest time that is waited for awake: what is later than that is an accident."""


class Punctual:
    """Owner of what is known of the machine's sleeps. For one thread."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._late_s = 0.0

    def wait(self, moment: float) -> None:
        """Return when the clock shows ``moment``, in seconds; at once where it does already."""
        end = moment - self._late_s
        nap = end - self._clock()
        if nap > 0:
            self._sleep(nap)
            late = min(_MOST_S, self._clock() - end)
            self._late_s += _SHARE * (late - self._late_s)
        while self._clock() < moment:
            self._sleep(0)
