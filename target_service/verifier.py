"""Verifying: one ragged pass over the new tokens and the block, then the choice rule (a Program of the engine).

A block of no tokens is plain decoding. It does not know streams, sessions or where the block came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.choice import verify
from outrider.inference.program import Done, More
from outrider.sampling import SamplingParams


@dataclass(slots=True)
class Verify:
    """Check ``tail`` against the target's own choices. Its result is a ``choice.Verdict``."""

    params: SamplingParams
    tail: tuple[int, ...]
    vocab_size: int
    logprobs: bool = False
    growth: int = 0

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done:
        """logits [k+1, V]: row i follows the committed tokens and i draft tokens."""
        committed = context[: len(context) - len(self.tail)]
        verdict = verify(logits[:, : self.vocab_size], self.tail, committed, self.params, self.logprobs)
        return Done(verdict, keep=len(committed) + verdict.num_accepted)
