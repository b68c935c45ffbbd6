"""What of an answer its client has yet to hear. A client that resumes has heard some of it from somebody else.

It knows tokens and text, not messages.
"""

from dataclasses import dataclass

from orchestrator.answer import Answer
from orchestrator.totals import Round
from outrider.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Part:
    """Text, tokens and their logarithms of probability that the client hears next."""

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


class Recital:
    """Owner of how far an answer is told. ``text`` is all of it so far, what the client has heard included."""

    def __init__(self, answer: Answer, heard: int = 0) -> None:
        """``heard``: tokens that the client has. Text is a function of the tokens, so it has the text of those."""
        self._answer = answer
        self._heard = heard
        self.text = answer.take_text()

    def part(self, done: Round) -> Part | None:
        """The part of a round, or None where the client knows all of it."""
        before = len(self._answer.tokens) - len(done.emitted)
        fresh = self._answer.take_text()
        self.text += fresh
        if before >= self._heard:
            return Part(fresh, done.emitted, done.logprobs)
        known = self._heard - before
        if known >= len(done.emitted):
            return None
        return Part(self.text[len(self._answer.text_of(self._heard)) :], done.emitted[known:], done.logprobs[known:])

    def finish(self) -> None:
        """The answer is over. Raises InvalidArgument when it never had the tokens that the client says it has."""
        if len(self._answer.tokens) < self._heard:
            has = f"the answer has {len(self._answer.tokens)} tokens"
            raise InvalidArgument("resume_from", f"{has}, fewer than {self._heard}")
