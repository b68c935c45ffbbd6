"""How long the engine waits for the sessions of the last pass to come back before it starts the next one.

A session that comes back just after a pass has begun misses it. Without a short wait, sessions fall into groups that
take turns, and each token costs two passes instead of one. Waiting pays only while sessions come back much faster
than a pass takes, not while they fetch a draft in between; and only while those who are waited for would lose more
than those who wait. It knows streams and times, not caches or models.
"""

from outrider.inference.stream import Stream

_WEIGHT = 0.1
_MARGIN = 2.0
"""Waits up to this many average times of return."""
_MOST = 1.0
"""And never longer than this many passes."""


class Gather:
    """Who is away between two rounds, and averages of the time of a return and of a pass. Times are in seconds."""

    def __init__(self) -> None:
        self._away: dict[str, tuple[Stream, float]] = {}  # those who left last come last
        self._return_s = 0.0
        self._pass_s = 0.0
        self._pass_ended = 0.0

    def left(self, session_id: str, stream: Stream, now: float) -> None:
        """A round of the session was answered."""
        self._away[session_id] = (stream, now)

    def came_back(self, session_id: str, now: float) -> None:
        """A round of the session has come."""
        known = self._away.pop(session_id, None)
        if known is not None:
            self._return_s += _WEIGHT * (min(now - known[1], 1.0) - self._return_s)

    def note_pass(self, seconds: float, now: float) -> None:
        """A pass that took so long has just ended; its sessions leave from now on."""
        self._pass_s += _WEIGHT * (seconds - self._pass_s)
        self._pass_ended = now

    def forget_closed(self) -> None:
        """Sessions whose stream has ended do not come back."""
        self._away = {name: entry for name, entry in self._away.items() if entry[0].open}

    def patience(self, now: float, here: int = 0) -> float:
        """Seconds that are still worth waiting; 0 when all are here, when the others will not be back in time, or
        when they lose less by missing a pass than the rounds that are ``here`` by waiting."""
        wait = _MARGIN * self._return_s
        left = self._pass_ended + wait - now
        if wait > _MOST * self._pass_s or self._expected() * self._pass_s < here * left:
            return 0.0
        return max(0.0, left) if self._expected() else 0.0

    def _expected(self) -> int:
        """Sessions of the last pass that are away and may come back."""
        count = 0
        for stream, since in reversed(self._away.values()):
            if since < self._pass_ended:
                break
            count += stream.open
        return count
