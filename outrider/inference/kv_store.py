"""The tensors of the KV cache. It knows layers and blocks; which session holds which block is not its business.

Keys of a block lie as [D, B] and values as [B, D], so that the CPU kernel reads both along their rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

BLOCK_SIZE = 32
"""Tokens per block."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What one attention layer stores and sees: heads, head size, and its window (0 for all keys)."""

    kv_heads: int
    head_dim: int
    window: int = 0

    def bytes_per_block(self, dtype: torch.dtype) -> int:
        """Size of one block of keys and values."""
        return 2 * self.kv_heads * self.head_dim * BLOCK_SIZE * dtype.itemsize


class KVStore:
    """Keys [N, V, D, B] and values [N, V, B, D] of every layer, allocated once."""

    def __init__(self, layers: Sequence[LayerShape], num_blocks: int, dtype: torch.dtype, device: torch.device) -> None:
        self.keys = [
            torch.zeros(num_blocks, s.kv_heads, s.head_dim, BLOCK_SIZE, dtype=dtype, device=device) for s in layers
        ]
        self.values = [
            torch.zeros(num_blocks, s.kv_heads, BLOCK_SIZE, s.head_dim, dtype=dtype, device=device) for s in layers
        ]

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks (from, to) in every layer."""
        for source, target in copies:
            for cache in (*self.keys, *self.values):
                cache[target].copy_(cache[source])
