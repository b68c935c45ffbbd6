"""Drafting: catch up with the session, then choose one token after another (a Program of the engine).

It uses the same choice rule and noise as the target. Bad logits mean that nothing more is proposed, never an
error: a guess is allowed to be missing. It does not know streams or sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from outrider.choice import choose
from outrider.errors import NonFiniteLogits
from outrider.inference.program import Done, More
from outrider.sampling import SamplingParams


@dataclass(slots=True)
class Propose:
    """Propose up to ``count`` tokens (at least 1) after the claimed ones. Its result is their tuple."""

    params: SamplingParams
    count: int
    vocab_size: int
    tail: tuple[int, ...] = ()
    _proposed: list[int] = field(default_factory=list)

    @property
    def growth(self) -> int:
        """The last proposed token is not run: nobody needs what would follow it."""
        return self.count - 1

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done:
        """Choose the next token from the last row's logits."""
        try:
            token = choose(logits[-1, : self.vocab_size], context, self.params, len(context))
        except NonFiniteLogits:
            return Done(tuple(self._proposed), keep=0)
        self._proposed.append(token)
        if len(self._proposed) == self.count:
            return Done(tuple(self._proposed), keep=len(context))
        return More((token,))
