"""One answer's lines in the journal: what of it is written, and whether it is still ours to make. It does no I/O."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.journal_messages import write_tokens
from orchestrator.journal_store import MISSING, TAKEN, Key, Write

_TOUCH_S = 1.0
"""An answer that makes no progress says so often that it goes on."""


@dataclass(slots=True, eq=False)
class Entry:
    """``owner`` names this making of the answer, ``head`` says how it was asked for. ``superseded``: somebody else
    makes it now, and this one is to stop."""

    key: Key
    owner: str
    head: bytes
    tokens: list[int]
    begun: bool = False
    written: int = 0
    superseded: bool = False
    ended: bool = False
    history: bytes | None = None
    drop: bool = False
    _wrote_at: float = 0.0

    def commit(self, tokens: Sequence[int]) -> None:
        """Tokens that belong to the answer now."""
        self.tokens.extend(tokens)

    def over(self, history: bytes | None, drop: bool) -> None:
        """Nothing follows."""
        self.ended, self.history, self.drop = True, history, drop

    @property
    def due(self) -> bool:
        """Whether there is something to write, or it is time to say that it goes on."""
        return self.begun and (len(self.tokens) > self.written or time.monotonic() - self._wrote_at >= _TOUCH_S)

    def packed(self) -> bytes:
        """All its tokens."""
        return write_tokens(self.tokens)

    def write(self) -> Write:
        """What is not written yet."""
        return Write(self.key, self.owner, self.written, write_tokens(self.tokens[self.written :]))

    def wrote(self, write: Write, result: int) -> None:
        """What became of a write."""
        self.superseded = self.superseded or result == TAKEN
        if result != MISSING:
            self.written, self._wrote_at = write.start + len(write.tokens) // 4, time.monotonic()

    def began(self, tokens: int, result: int) -> None:
        """What became of the first write, which had so many tokens, or of another first one after all was lost."""
        self.superseded = self.superseded or result == TAKEN
        self.begun, self.written, self._wrote_at = True, tokens, time.monotonic()
