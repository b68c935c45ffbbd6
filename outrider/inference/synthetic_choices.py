"""Which tokens a synthetic model finds likely after a context: a rule in place of weights.

Target and draft follow the same rule, so a draft can be wrong as often as it is told to: whether it agrees with the
target is itself decided by a hash of the context, at each position by itself. Nothing here depends on time, on the
other rows of a pass or on which process asks. It knows hashes and token ids, not caches or passes.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from outrider.errors import IncompatibleReplica
from outrider.hashing import GOLDEN, mix64
from outrider.inference.packed import Longs
from outrider.tokenizer import Tokenizer

RANKS = 17
"""Tokens of a row that are likelier than all others: as many as a look-ahead can ask for (16), and the choice."""
LEAST_WORDS = 2 * RANKS
_MOST_WORDS = 512
_CHOICE, _OTHERS, _AGREEMENT = 1, 2, 3  # draws from one context that have nothing to do with each other

Bits = npt.NDArray[np.uint64]


def mixed(values: Bits) -> Bits:
    """SplitMix64's output function of each value; numpy's integers wrap by themselves."""
    return cast(Bits, mix64(cast(Any, values.copy())))


def _draw(contexts: Bits, purpose: int) -> Bits:
    return mixed(contexts + np.uint64(purpose * GOLDEN % 2**64))


def words(tokenizer: Tokenizer) -> Longs:
    """Ids of the first tokens that are letters, so that answers can be printed; special ones, the end among them,
    never are. Raises IncompatibleReplica when there are too few."""
    special = tokenizer.fast.get_added_tokens_decoder()
    found: list[int] = []
    for token in range(tokenizer.vocab_size):
        if token not in special and tokenizer.decode([token]).strip().isalpha():
            found.append(token)
        if len(found) == _MOST_WORDS:
            break
    if len(found) < LEAST_WORDS:
        raise IncompatibleReplica(f"the tokenizer has {len(found)} tokens of letters; {LEAST_WORDS} are needed")
    return np.array(found, np.int64)


@dataclass(frozen=True, slots=True)
class Choices:
    """``words`` [N] are the tokens to choose from. The target's choice is the likeliest with the chance
    ``acceptance``; where it is not, it comes second with the chance ``second``, else third with that chance, and so
    on. The target's own rule is ``acceptance`` 1."""

    words: Longs
    acceptance: float = 1.0
    second: float = 0.0

    def ranked(self, contexts: Bits) -> Longs:
        """Token ids [W, RANKS] after each context's hash [W], likeliest first, each once."""
        count = np.uint64(len(self.words))
        choice = _draw(contexts, _CHOICE) % count
        apart = _draw(contexts, _OTHERS)[:, None] % (count - np.uint64(1)) + np.arange(RANKS, dtype=np.uint64)
        places = (choice[:, None] + np.uint64(1) + apart % (count - np.uint64(1))) % count
        rank = self._rank_of_choice(contexts)
        (among,) = np.nonzero(rank < RANKS)
        places[among, rank[among]] = choice[among]
        return self.words[places.astype(np.int64)]

    def _rank_of_choice(self, contexts: Bits) -> Longs:
        """Where the target's choice stands [W], from 0; RANKS when it is not among the likely ones."""
        reached = 1 - (1 - self.acceptance) * (1 - self.second) ** np.arange(RANKS)
        uniforms = (_draw(contexts, _AGREEMENT) >> np.uint64(11)) * 2.0**-53
        return np.searchsorted(reached, uniforms, side="right").astype(np.int64)
