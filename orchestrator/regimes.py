"""What all answers of a pool do together while several share the target, so that what that costs can be measured.

Answers that each did what looks best beside the others would measure mixtures, and each would slow the others down.
With one answer it decides nothing. It does not know what is best; whoever reviews a regime says so.
"""

from orchestrator.rounds import PLAIN, Kind, load_of

Way = tuple[Kind, int]
"""A kind of round and its number of draft tokens."""
_REVIEW = 4.0
"""Tokens between two reviews."""
_SETTLE = 3.0
"""Tokens, beside those of the runs on their way, after which all answers have come over."""
_BETWEEN_LOOKS = 64.0
"""Tokens between two looks at the target alone."""
_PROVEN = 128.0
"""Tokens that a way must last to be no failure."""
_PAUSE, _LONGEST_PAUSE = 64.0, 1024.0
"""Tokens before speculation that failed at a load is tried again; twice as long each time."""
_SURE = 1.25
"""Expected gain over the target alone for which it need not wait so long: it knows by now what made it fail."""


class Regimes:
    """One way per load; and looks at the target alone in between. Ages are in tokens."""

    def __init__(self) -> None:
        self._ways: dict[int, Way] = {}
        self._pauses: dict[tuple[int, Kind], tuple[float, float]] = {}
        self._changed = self._reviewed = self._looked = self._look_until = -1e9
        self.run_tokens = 1
        """Tokens of the plain runs asked for at present: so long do answers take to follow."""

    def way(self, sessions: int) -> Way:
        """What is done at this load."""
        return self._ways.get(load_of(sessions), (PLAIN, 0))

    def due(self, now: float) -> bool:
        """Whether the regime should be weighed again."""
        return now - self._reviewed >= _REVIEW

    def review(self, sessions: int, way: Way, gain: float, now: float) -> None:
        """What is best was weighed, and is expected to make ``gain`` times the target alone. A new way is given the
        time to show itself, but not to go on losing; one that failed is not tried again soon, unless what it has shown
        says that it would gain much."""
        self._reviewed = now
        load, present = load_of(sessions), self.way(sessions)[0]
        early = now - self._changed < _SETTLE + self.run_tokens + _REVIEW
        sure = present == PLAIN and gain > _SURE
        paused = not sure and now < self._pauses.get((load, way[0]), (_PAUSE, now))[1]
        if way[0] not in (PLAIN, present) and (early or paused):
            return
        if way[0] != present:
            self._leave(load, present, now)
            self._changed = now
        self._ways[load] = way

    def _leave(self, load: int, kind: Kind, now: float) -> None:
        """A kind was given up: soon again if it has lasted, and later each time if it has not."""
        failed = now - self._changed < _PROVEN
        pause = self._pauses.get((load, kind), (_PAUSE, now))[0] if failed else _PAUSE
        self._pauses[load, kind] = (min(_LONGEST_PAUSE, 2 * pause), now + pause)

    def look(self, tokens: float, now: float) -> None:
        """All do plain rounds for a while, to see what they cost now."""
        self._looked, self._look_until = now, now + tokens
        self.run_tokens = 1

    def may_look(self, now: float) -> bool:
        """Whether the last look was long enough ago."""
        return now - self._look_until >= _BETWEEN_LOOKS

    def looking(self, now: float) -> bool:
        """Whether such a look goes on."""
        return now < self._look_until

    def settled(self, kind: Kind, sessions: int, now: float) -> bool:
        """Whether rounds of this kind show what it costs when all do alike."""
        if sessions == 1:
            return True
        if self.looking(now):
            return kind == PLAIN and now - self._looked >= _SETTLE
        since = max(self._changed, self._look_until)
        return kind == self.way(sessions)[0] and now - since >= _SETTLE + self.run_tokens
