"""How likely copies from the text are accepted, by how many tokens stand before them in both places.

A copied token that is right makes the match longer by one, so that a block tells of every length that it went through,
and what follows a long match is as likely as what a copy that has come so far goes on with. It does not know times.
"""

from collections.abc import Sequence

from orchestrator.decay import Counts
from orchestrator.ngram import LONGEST, SHORTEST

_WRONG, _FALLS = 0.55, 0.65
"""Chance that what follows the shortest match is wrong, and the power of the length that it falls with: measured on
answers that copy and on everyday ones."""
USUAL = tuple(1 - _WRONG * (SHORTEST / length) ** _FALLS for length in range(SHORTEST, LONGEST + 1))
"""Chances by the length of the match before anything was seen."""
_STRENGTH = 2.0
"""Trials that what is known beforehand is worth at each length."""
_LIKE_NEXT = 0.5
"""How far a text that is better or worse than expected at one length is expected to be so at the next."""
_MOST = 0.995


def _place(match: int) -> int:
    return max(SHORTEST, min(LONGEST, match)) - SHORTEST


class CopyAcceptance:
    """Chances of the next token after a match of ``SHORTEST`` to ``LONGEST`` tokens, longer ones counting as that."""

    def __init__(self, half_life: float) -> None:
        self._counts = Counts(half_life)

    def note(self, match: int, proposed: int, accepted: int, now: float) -> None:
        """A verdict on a copy of at least one token."""
        hits, trials = [0.0] * len(USUAL), [0.0] * len(USUAL)
        for index in range(min(proposed, accepted + 1)):
            place = _place(match + index)
            trials[place] += 1
            hits[place] += index < accepted
        self._counts.add(hits, trials, now)

    def curve(self, now: float, prior: Sequence[float] = USUAL) -> tuple[float, ...]:
        """Chances by length of a text of which ``prior`` is expected."""
        result: list[float] = []
        lead = 1.0
        for place, chance in enumerate(prior):
            own = self._counts.share(place, min(_MOST, chance * lead), _STRENGTH, now)
            result.append(own)
            lead = 1 + _LIKE_NEXT * (min(2.0, own / max(chance, 0.01)) - 1)
        return tuple(result)


def along(curve: Sequence[float], match: int, count: int) -> tuple[float, ...]:
    """Chances of ``count`` copied tokens behind such a match, each given those before."""
    return tuple(curve[_place(match + index)] for index in range(count))
