"""One answer's lines in the journal: what of it is written, and whether it is still ours to make. It does no I/O."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.journal_messages import write_numerics, write_tokens
from orchestrator.journal_store import MISSING, TAKEN, Begin, End, Key, Write
from outrider.wire import Numerics

_TOUCH_S = 1.0
"""An answer that makes no progress says so often that it goes on."""


@dataclass(slots=True, eq=False)
class Entry:
    """``owner`` names this making of the answer, ``former`` the one before it, ``head`` says how it was asked for, and
    ``numerics`` are those of its target. ``superseded``: somebody else makes it now, and this one is to stop."""

    key: Key
    owner: str
    head: bytes
    tokens: list[int]
    former: str = ""
    numerics: Numerics | None = None
    begun: bool = False
    written: int = 0
    superseded: bool = False
    ended: bool = False
    history: bytes | None = None
    turns: int = 0
    last: bool = False
    _wrote_at: float = 0.0
    _numerics_told: bool = False

    def commit(self, tokens: Sequence[int]) -> None:
        """Tokens that belong to the answer now."""
        self.tokens.extend(tokens)

    def over(self, history: bytes | None, turns: int, last: bool) -> None:
        """Nothing follows."""
        self.ended, self.history, self.turns, self.last = True, history, turns, last

    @property
    def complete(self) -> bool:
        """Whether it was told to its end."""
        return self.history is not None or self.last

    @property
    def pointless(self) -> bool:
        """Whether it broke off before anything of it was written."""
        return self.ended and not self.begun and not self.complete

    def begin(self) -> Begin:
        """The first write, or another first one after all was lost."""
        return Begin(self.key, self.owner, self.head, self.packed(), self.former)

    def end(self) -> End:
        """The last write."""
        return End(self.key, self.owner, self.history, self.turns, self.last)

    @property
    def due(self) -> bool:
        """Whether there is something to write, or it is time to say that it goes on."""
        return self.begun and (len(self.tokens) > self.written or time.monotonic() - self._wrote_at >= _TOUCH_S)

    def packed(self) -> bytes:
        """All its tokens."""
        return write_tokens(self.tokens)

    def write(self) -> Write:
        """What is not written yet."""
        tokens = write_tokens(self.tokens[self.written :])
        numerics = b"" if self.numerics is None or self._numerics_told else write_numerics(self.numerics)
        return Write(self.key, self.owner, self.written, tokens, numerics)

    def wrote(self, write: Write, result: int) -> None:
        """What became of a write."""
        self.superseded = self.superseded or result == TAKEN
        if result == MISSING:
            self.begun = False
        else:
            self.written, self._wrote_at = write.start + len(write.tokens) // 4, time.monotonic()
            self._numerics_told = self._numerics_told or bool(write.numerics)

    def began(self, tokens: int, result: int) -> None:
        """What became of the first write, which had so many tokens, or of another first one after all was lost."""
        self.superseded = self.superseded or result == TAKEN
        self.begun, self.written, self._wrote_at = True, tokens, time.monotonic()
        self._numerics_told = False
