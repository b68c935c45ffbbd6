"""Text from tokens, as it becomes certain: no character is split, no stop text leaks.

It knows decoding and stop texts; it does not know models, rounds or where a block ends.
"""

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]
INCOMPLETE = "\ufffd"


class TextStream:
    """Incremental detokenizer. Joined results of ``push`` and ``flush`` equal the decoding of all tokens.

    A decoding that ends in U+FFFD may be a character whose last bytes are still to come, so such marks wait: all
    of them, because decoders with byte fallback give one for each byte.
    Only a window of tokens is decoded: from the last point where the text was complete, and the stretch
    before it as context for decoders that treat the first token specially.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._context = 0
        self._complete = 0
        self._shown = 0

    def push(self, token: int) -> str:
        """Text that became certain with this token."""
        self._tokens.append(token)
        text = self._decode(self._tokens[self._context :])
        stable = text.rstrip(INCOMPLETE)
        fresh = stable[self._shown :]
        self._shown = max(self._shown, len(stable))
        if stable == text and fresh:
            self._context, self._complete = self._complete, len(self._tokens)
            self._shown = len(self._decode(self._tokens[self._context :]))
        return fresh

    def flush(self) -> str:
        """What is left at the end; an incomplete character becomes U+FFFD."""
        fresh = self._decode(self._tokens[self._context :])[self._shown :]
        self._shown += len(fresh)
        return fresh


def _held(text: str, stops: Sequence[str]) -> int:
    """Length of the longest end of ``text`` that could still grow into a stop text."""
    longest = max((len(stop) for stop in stops), default=1) - 1
    for size in range(min(longest, len(text)), 0, -1):
        tail = text[-size:]
        if any(stop.startswith(tail) for stop in stops):
            return size
    return 0


class StopMatcher:
    """Holds back what may become a stop text; the match that completes first wins, of several the longest."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Text that may be shown, and whether a stop text was completed (it and the rest are dropped)."""
        text = self._held + text
        hits = [(text.find(stop) + len(stop), text.find(stop)) for stop in self._stops if stop in text]
        if hits:
            self._held = ""
            return text[: min(hits)[1]], True
        keep = _held(text, self._stops)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        """What was held back and is no stop text after all."""
        text, self._held = self._held, ""
        return text
