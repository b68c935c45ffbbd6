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
        shapes = [(num_blocks, s.kv_heads, s.head_dim, BLOCK_SIZE) for s in layers]
        self.keys = self._allocate(shapes, dtype, device)
        self.values = self._allocate([(n, v, b, d) for n, v, d, b in shapes], dtype, device)
        parts = self.whole if len(set(shapes)) == 1 else [layer[None] for layer in (*self.keys, *self.values)]
        self._stacks = list(parts)  # [layers, N, ...]: few copies per block, however many layers

    @staticmethod
    def _allocate(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, device: torch.device) -> list[torch.Tensor]:
        """One tensor per layer; of equal layers they lie in one piece. Filled, so that every page is really there."""
        if len(set(shapes)) == 1:
            return list(torch.empty(len(shapes), *shapes[0], dtype=dtype, device=device).zero_())
        return [torch.empty(shape, dtype=dtype, device=device).zero_() for shape in shapes]

    @property
    def whole(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys [L, N, V, D, B] and values [L, N, V, B, D] of equal layers in one piece."""
        return _joined(self.keys), _joined(self.values)

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks (from, to) in every layer."""
        for stack in self._stacks:
            for source, target in copies:
                stack[:, target].copy_(stack[:, source])


def _joined(layers: Sequence[torch.Tensor]) -> torch.Tensor:
    """The one tensor that layers in one piece are parts of."""
    first = layers[0]
    return torch.as_strided(first, (len(layers), *first.shape), (first.numel(), *first.stride()))
