"""Drafting: catch up with the session, then choose one token after another (a Program of the engine).

It uses the same choice rule and noise as the target. Bad logits mean that nothing more is proposed, never an
error: a guess is allowed to be missing. It does not know streams or sessions.
"""

from collections.abc import Hashable, Sequence
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
    chosen: list[int] = field(default_factory=list)

    @property
    def growth(self) -> int:
        """The last proposed token is not run: nobody needs what would follow it."""
        return self.count - 1

    @property
    def rule(self) -> Hashable:
        """What the choices depend on besides the tokens before them."""
        return self.params, self.vocab_size

    def resume(self, chosen: Sequence[int], length: int) -> Done | None:
        """Take over choices that follow the ``length`` claimed tokens. Done when they are enough."""
        self.chosen = list(chosen[: self.count])
        return self._block(length) if len(self.chosen) == self.count else None

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done:
        """Choose the next token from the last row's logits."""
        try:
            token = choose(logits[-1, : self.vocab_size], context, self.params, len(context))
        except NonFiniteLogits:
            return Done(tuple(self.chosen), keep=0)
        claimed = len(context) - len(self.chosen)
        self.chosen.append(token)
        return self._block(claimed) if len(self.chosen) == self.count else More((token,))

    def _block(self, claimed: int) -> Done:
        return Done(tuple(self.chosen), keep=claimed + self.count - 1)
