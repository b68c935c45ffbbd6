"""Draft tokens copied from the text itself: what followed the last place that reads like its end.

Prompt lookup (Saxena, 2023; vLLM's ``ngram``, llama.cpp's ``ngram-simple``) with the hash chains of LZ77 as zlib
builds them (RFC 1951, section 4): one table from the hash of an n-gram to its last place, and from each place to the
one before. Appending and cutting a token cost O(1), a proposal a bounded walk, a token 16 to 28 bytes. Pure: it knows
a list of tokens, and neither rounds nor who chooses the next one.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

SHORTEST = 2
"""Least tokens that a match must have."""
LONGEST = 16
"""Tokens that a match is compared over; longer matches count as equally long, and the most recent of them wins."""
_CANDIDATES = 256
"""Places that one proposal looks at, the most recent ones: nobody's text can make it slow."""
_STEP = 8192
"""Tokens that one proposal indexes: a long prompt takes several, 3 ms each, so that nobody waits for it longer."""
_LEAST_SLOTS = 1024
_NOWHERE = 0  # a place is where an n-gram ends, so none is 0


@dataclass(frozen=True, slots=True)
class Match:
    """Tokens to try next, and how many tokens at the end of the text also stand before the place they are from.

    Both are empty, and 0, where nothing matches. The longer the match, the likelier the tokens.
    """

    tokens: tuple[int, ...]
    length: int


NO_MATCH = Match((), 0)


class NgramDrafter:
    """An index over one session's tokens. It is built by the first proposals, and not at all without one; until it is
    complete nothing matches."""

    def __init__(self, tokens: Iterable[int] = (), shortest: int = SHORTEST, longest: int = LONGEST) -> None:
        """``shortest`` and ``longest`` bound a match. Raises ValueError unless 1 <= shortest <= longest."""
        if not 1 <= shortest <= longest:
            raise ValueError(f"shortest must be at least 1 and at most longest ({longest}), not {shortest}")
        self._shortest, self._longest = shortest, longest
        self._tokens = list(tokens)
        self._last = array("i")
        self._before = array("i")  # of the place shortest + i: the place before it of the same hash

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        self._tokens.extend(tokens)

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises ValueError when there are fewer."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"cannot cut {len(self._tokens)} tokens to {length}")
        while self._indexed > length and self._before:
            self._last[self._slot(self._indexed)] = self._before[-1]
            self._before.pop()
        del self._tokens[length:]

    def propose(self, count: int) -> Match:
        """``count`` tokens that followed the longest match of the text's end, the most recent one of equals.

        Where the text ends before that, the offer goes on with itself: a loop goes on as a loop.
        """
        self._catch_up()
        if count <= 0 or not self._before or self._indexed < len(self._tokens):
            return NO_MATCH
        place, length = self._longest_match()
        if length < self._shortest:
            return NO_MATCH
        copied = self._tokens[place : place + count]
        turns = -(-count // len(copied))
        return Match(tuple((copied * turns)[:count]), length)

    @property
    def _indexed(self) -> int:
        """The last place that the index knows, if it knows any."""
        return len(self._before) + self._shortest - 1

    def _slot(self, place: int) -> int:
        return hash(tuple(self._tokens[place - self._shortest : place])) & (len(self._last) - 1)

    def _catch_up(self) -> None:
        """Index tokens that came since the last proposal; everything again in a larger table when it is full."""
        if len(self._tokens) > len(self._last):
            slots = max(_LEAST_SLOTS, 1 << (len(self._tokens) * 2 - 1).bit_length())
            self._last, self._before = array("i", bytes(4 * slots)), array("i")
        first, mask, last, before = len(self._before), len(self._last) - 1, self._last, self._before
        new = self._tokens[first : first + _STEP]
        grams = zip(*(new[i:] for i in range(self._shortest)), strict=False)  # as many as the shortest list has
        for place, gram in enumerate(grams, first + self._shortest):
            slot = hash(gram) & mask
            before.append(last[slot])
            last[slot] = place

    def _longest_match(self) -> tuple[int, int]:
        """Where the best match ends, and its length: one below the shortest allowed when there is none."""
        end, best, found = len(self._tokens), self._shortest - 1, _NOWHERE
        place = self._before[-1]
        for _ in range(_CANDIDATES):
            if place == _NOWHERE or best == self._longest:
                break
            if best < place and self._tokens[place - 1 - best] == self._tokens[end - 1 - best]:
                length = self._common(place, end)
                if length > best:
                    best, found = length, place
            place = self._before[place - self._shortest]
        return found, best

    def _common(self, place: int, end: int) -> int:
        """Equal tokens before two places, as far as matches are compared."""
        tokens, most = self._tokens, min(self._longest, place)
        for length in range(most):
            if tokens[place - 1 - length] != tokens[end - 1 - length]:
                return length
        return most
