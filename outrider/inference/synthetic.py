"""A model process without a model: passes take the time that they are told to, choices follow a rule.

Everything around the runner is real: engine, caches, services, wire. So systems can be measured and tested as if
they had hardware that is not there. The cache is real in what matters to its users: a row's choice depends on every
token that it can reach through its block table and on where each of them lies, as with attention; a wrong table, a
missed copy or a stale block gives another text. It does not know sessions, rounds or gRPC.
"""

import secrets
import time
from collections.abc import Sequence

import numpy as np
import torch

from outrider.errors import IncompatibleReplica
from outrider.hashing import GOLDEN
from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.memory import choose_kv_bytes
from outrider.inference.packed import PADDING, PackedPass
from outrider.inference.punctual import Punctual
from outrider.inference.synthetic_choices import RANKS, Bits, Choices, mixed, words
from outrider.pass_times import PassTimes
from outrider.replica_config import DraftConfig, ReplicaConfig
from outrider.tokenizer import Tokenizer
from outrider.wire import Numerics, ReplicaFacts

MAX_POSITIONS = 8192
_BYTES_PER_TOKEN = np.dtype(np.uint64).itemsize
_GAP = 10_000.0
"""Between the logits of two ranks: no noise turns them around (Gumbel noise of 52 bits spans 41, the temperature goes
up to 100)."""


def slot_values(plan: PackedPass) -> Bits:
    """What the cache keeps of each row [T]: a hash of its token and its position."""
    return mixed(plan.positions.astype(np.uint64) * np.uint64(GOLDEN) + plan.tokens.astype(np.uint64))


class SyntheticRunner:
    """Implements ``program.Runner``."""

    block_size = BLOCK_SIZE
    max_positions = MAX_POSITIONS

    def __init__(self, choices: Choices, times: PassTimes, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.row_multiple = 1
        self._choices = choices
        self._times = times
        self._punctual = Punctual()
        self._cache = np.zeros((num_blocks, BLOCK_SIZE), np.uint64)
        self._width = int(choices.words.max()) + 1
        self._levels = torch.arange(RANKS, 0, -1) * _GAP

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy cache blocks (from, to)."""
        for source, target in copies:
            self._cache[target] = self._cache[source]

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """Wait as long as the pass takes. Returns fp32 logits [W, V], V covering the tokens to choose from only."""
        ready = time.perf_counter() + self._times.seconds(plan.rows)
        self._write(plan)
        logits = self._logits(self._contexts(plan))
        self._punctual.wait(ready)
        return logits

    def _write(self, plan: PackedPass) -> None:
        real = plan.blocks != PADDING
        self._cache[plan.blocks[real], plan.offsets[real]] = slot_values(plan)[real]

    def _contexts(self, plan: PackedPass) -> Bits:
        """Hash [W] of what each wanted row sees: the sum of its session's slots up to it, read through the table."""
        sums = self._cache[plan.tables].reshape(len(plan.tables), -1).cumsum(axis=1, dtype=np.uint64)
        segment_of = np.repeat(np.arange(len(plan.segments)), plan.segments[:, 1])
        seen: Bits = sums[segment_of[plan.wanted], plan.positions[plan.wanted]]
        return seen

    def _logits(self, contexts: Bits) -> torch.Tensor:
        ranked = torch.from_numpy(self._choices.ranked(contexts))
        return torch.zeros(len(ranked), self._width).scatter_(1, ranked, self._levels.expand(len(ranked), -1))


def _num_blocks(config: ReplicaConfig) -> int:
    """Blocks of the cache. Raises IncompatibleReplica when the budget holds none."""
    per_block = BLOCK_SIZE * _BYTES_PER_TOKEN
    budget = config.kv_bytes or choose_kv_bytes(torch.device("cpu"), MAX_POSITIONS * _BYTES_PER_TOKEN)
    if budget < per_block:
        raise IncompatibleReplica(f"a KV budget of {budget} bytes is less than one synthetic block of {per_block}")
    return budget // per_block


def _choices(config: ReplicaConfig, tokenizer: Tokenizer) -> Choices:
    if isinstance(config, DraftConfig):
        return Choices(words(tokenizer), config.synthetic_acceptance, config.synthetic_second)
    return Choices(words(tokenizer))


def _path(config: ReplicaConfig) -> str:
    rule = f"synthetic, no model: passes of {config.synthetic_pass_ms} ms"
    if isinstance(config, DraftConfig):
        return f"{rule}, right with chance {config.synthetic_acceptance:g}, next with {config.synthetic_second:g}"
    return rule


def load_synthetic(config: ReplicaConfig) -> tuple[SyntheticRunner, ReplicaFacts]:
    """A runner that stands in for the model, and its handshake. Reads the tokenizer of the model's folder only.

    Raises FileNotFoundError without a tokenizer, and IncompatibleReplica.
    """
    tokenizer = Tokenizer.load(config.model)
    runner = SyntheticRunner(_choices(config, tokenizer), config.synthetic_pass_ms, _num_blocks(config))
    facts = ReplicaFacts(
        incarnation=secrets.randbits(64),
        model_id=config.model,
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocab_size=tokenizer.vocab_size,
        eos_token_ids=(),
        max_positions=runner.max_positions,
        row_invariant=True,
        kv_capacity_tokens=runner.num_blocks * runner.block_size,
        max_draft_tokens=config.max_draft_tokens,
        numerics=Numerics(hardware="none", build="synthetic", dtype="synthetic", path=_path(config)),
        weights=f"synthetic {tokenizer.fingerprint}",
    )
    return runner, facts
