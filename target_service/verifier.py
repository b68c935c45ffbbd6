"""Verifying: one ragged pass over the new tokens and the block, then the choice rule (a Program of the engine).

A block of no tokens is plain decoding, which may go on unasked for a run of rounds: then each choice is told and
followed at once. It does not know streams, sessions or where the block came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.choice import verify
from outrider.inference.program import Done, More
from outrider.sampling import SamplingParams

MAX_RUN = 64
"""Most rounds of a run: it bounds what a reader who has gone may cost, and the cache reserved ahead."""


@dataclass(slots=True)
class Verify:
    """Check ``tail`` against the target's own choices, then decode ``run`` more tokens, for which the tail must be
    empty. Each result is a ``choice.Verdict``."""

    params: SamplingParams
    tail: tuple[int, ...]
    vocab_size: int
    logprobs: bool = False
    run: int = 0
    _told: int = 0

    @property
    def growth(self) -> int:
        """The last token of a run is not computed on: nobody needs what would follow it."""
        return self.run

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done:
        """logits [k+1, V]: row i follows the committed tokens and i draft tokens; in a run k is 0."""
        committed = context[: len(context) - len(self.tail)]
        verdict = verify(logits[:, : self.vocab_size], self.tail, committed, self.params, self.logprobs)
        if self._told == self.run:
            return Done(verdict, keep=len(committed) + verdict.num_accepted)
        self._told += 1
        return More((verdict.next_token,), verdict)
