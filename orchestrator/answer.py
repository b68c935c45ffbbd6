"""The answer of one turn: which tokens belong to it, its text so far, and why it ends.

Tokens are pushed one at a time, so where a block ends cannot matter. It does not know rounds or replicas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from orchestrator.text import Decode, StopMatcher, TextStream


class FinishReason(Enum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends an answer: a number of tokens, end ids, stop texts."""

    max_new_tokens: int
    end_ids: frozenset[int] = frozenset()
    stops: tuple[str, ...] = ()


class Answer:
    """Tokens and text of an answer. ``finished`` is set once; nothing is pushed after it.

    The token that ends the answer (an end id, or the one that completes a stop text) is part of ``tokens``;
    its text is not part of the text.
    """

    def __init__(self, ending: Ending, decode: Decode) -> None:
        self._ending = ending
        self._decode = decode
        self._stream = TextStream(decode)
        self._matcher = StopMatcher(ending.stops)
        self._certain: list[str] = []
        self.tokens: list[int] = []
        self.finished: FinishReason | None = None

    @property
    def remaining(self) -> int:
        """Tokens that may still follow."""
        return self._ending.max_new_tokens - len(self.tokens)

    def extend(self, tokens: Sequence[int]) -> int:
        """Push tokens until one ends the answer; returns how many belong to it."""
        for count, token in enumerate(tokens, 1):
            self._push(token)
            if self.finished:
                return count
        return len(tokens)

    def take_text(self) -> str:
        """Text that became certain since the last call."""
        text = "".join(self._certain)
        self._certain.clear()
        return text

    def text_of(self, count: int) -> str:
        """Text that was certain after the first ``count`` tokens."""
        shorter = Answer(self._ending, self._decode)
        shorter.extend(self.tokens[:count])
        return shorter.take_text()

    def _push(self, token: int) -> None:
        self.tokens.append(token)
        if token in self._ending.end_ids:
            self._finish(FinishReason.STOP)
            return
        text, stopped = self._matcher.push(self._stream.push(token))
        self._certain.append(text)
        if stopped:
            self.finished = FinishReason.STOP
        elif self.remaining <= 0:
            self._finish(FinishReason.LENGTH)

    def _finish(self, reason: FinishReason) -> None:
        """End without a stop text: everything held back is shown, unless it completes one after all."""
        text, stopped = self._matcher.push(self._stream.flush())
        self._certain.append(text)
        if not stopped:
            self._certain.append(self._matcher.flush())
        self.finished = FinishReason.STOP if stopped else reason
