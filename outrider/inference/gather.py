"""How long the engine waits for the sessions of the last pass to come back before it starts the next one.

A session that comes back just after a pass has begun misses it. Without a short wait, sessions fall into groups that
take turns, and each token costs two passes instead of one. Waiting pays only while sessions come back much faster
than a pass takes: not while they fetch a draft in between. Pure numbers; it knows no sessions.
"""

_WEIGHT = 0.1
_MARGIN = 2.0
"""Waits up to this many average times of return."""
_MOST = 1.0
"""And never longer than this many passes."""


class Gather:
    """Running averages of the time that sessions take to come back, and of the time of a pass, in seconds."""

    def __init__(self) -> None:
        self._return_s = 0.0
        self._pass_s = 0.0

    def note_return(self, seconds: float) -> None:
        """A session came back so long after its last round ended."""
        self._return_s += _WEIGHT * (min(seconds, 1.0) - self._return_s)

    def note_pass(self, seconds: float) -> None:
        """A pass took so long."""
        self._pass_s += _WEIGHT * (seconds - self._pass_s)

    @property
    def patience(self) -> float:
        """Seconds to wait after a pass; 0 when those who are away will not be back in time."""
        wait = _MARGIN * self._return_s
        return wait if wait <= _MOST * self._pass_s else 0.0
