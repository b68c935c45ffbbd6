"""Looking ahead: prepare the next block for the likely outcomes of a verdict in flight (a Program of the engine).

One pass over the block gives the draft's own logits at each place where the target may part from it. The target
uses the same noise, so its likely choices there are the draft's best candidates; the session forks at each of them
and all branches are decoded side by side (arXiv 2603.03251). It does not know streams or sessions, nor which
branches find room.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from draft_service.drafter import Propose
from outrider.choice import candidates
from outrider.errors import InvalidArgument, NonFiniteLogits
from outrider.inference.program import Fork, Sprout
from outrider.sampling import SamplingParams

MOST_CANDIDATES = 16
MOST_OUTCOMES = 64


def check_fanout(fanout: Sequence[int], num_draft_tokens: int) -> tuple[int, ...]:
    """Outcomes wanted for 0 to all accepted tokens. Raises InvalidArgument."""
    name = "look_ahead.fanout"
    if len(fanout) != num_draft_tokens + 1:
        words = f"{num_draft_tokens + 1} numbers, one more than look_ahead.draft_tokens, got {len(fanout)}"
        raise InvalidArgument(name, f"must hold {words}")
    for index, count in enumerate(fanout):
        if count > MOST_CANDIDATES:
            raise InvalidArgument(f"{name}[{index}]", f"must be 0 to {MOST_CANDIDATES}, got {count}")
    if not 1 <= sum(fanout) <= MOST_OUTCOMES:
        raise InvalidArgument(name, f"must add up to 1 to {MOST_OUTCOMES}, got {sum(fanout)}")
    return tuple(fanout)


@dataclass(slots=True)
class LookAhead:
    """Prepare ``count`` tokens for each of ``fanout[n]`` outcomes that accept n tokens of the block ``tail``.

    It forks into a ``Propose`` per outcome, the likeliest first. No session can become longer than ``limit`` tokens.
    """

    params: SamplingParams
    tail: tuple[int, ...]
    fanout: tuple[int, ...]
    count: int
    vocab_size: int
    limit: int
    growth: int = 0

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> Fork:
        """logits [k+1, V]: row i follows the committed tokens and i draft tokens. Bad logits end the cache there."""
        committed = len(context) - len(self.tail)
        seen = list(context[:committed])
        outcomes: list[tuple[int, int, int]] = []
        for accepted, row in enumerate(logits):
            try:
                likely = self._likely(row[: self.vocab_size], seen, accepted)
            except NonFiniteLogits:
                return self._fork(len(seen) - 1 if accepted else 0, committed, outcomes)
            outcomes += [(rank, accepted, token) for rank, token in enumerate(likely)]
            seen += self.tail[accepted : accepted + 1]
        return self._fork(len(context), committed, outcomes)

    def _likely(self, logits: torch.Tensor, seen: Sequence[int], accepted: int) -> list[int]:
        """The target's likely tokens. The draft token itself is none of them: that outcome accepts one more."""
        wanted, drafted = self.fanout[accepted], self.tail[accepted : accepted + 1]
        if wanted == 0:
            return []
        best = candidates(logits, seen, self.params, len(seen), wanted + len(drafted))
        return [token for token in best if token not in drafted][:wanted]

    def _fork(self, keep: int, committed: int, outcomes: Sequence[tuple[int, int, int]]) -> Fork:
        """Branches for outcomes (rank, accepted, token): first choices first, and where most were wanted."""
        order = sorted(outcomes, key=lambda outcome: (outcome[0], -self.fanout[outcome[1]], -outcome[1]))
        places = ((committed + accepted, token) for _, accepted, token in order)
        return Fork(keep, tuple(self._branch(length, token) for length, token in places if length < self.limit))

    def _branch(self, length: int, token: int) -> Sprout:
        return Sprout(length, token, Propose(self.params, min(self.count, self.limit - length), self.vocab_size))
