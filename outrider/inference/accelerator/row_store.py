"""The KV cache as torch operators like it: tokens of a block as rows, so that writing and gathering copy whole rows.

It is a ``KVStore`` to everybody who sees blocks; only the order in memory differs. It has one block more than asked
for, the spare one, which belongs to nobody: rows that only fill a shape up write there.
"""

from collections.abc import Sequence

import torch

from outrider.inference.kv_store import BLOCK_SIZE, KVStore, LayerShape


class RowStore(KVStore):
    """Keys and values [N + 1, B, V, D] of every layer, seen as [N + 1, V, D, B] and [N + 1, V, B, D] like others."""

    def __init__(self, layers: Sequence[LayerShape], num_blocks: int, dtype: torch.dtype, device: torch.device) -> None:
        shapes = [(num_blocks + 1, BLOCK_SIZE, s.kv_heads, s.head_dim) for s in layers]
        self.spare = num_blocks
        self.key_rows = self._allocate(shapes, dtype, device)
        self.value_rows = self._allocate(shapes, dtype, device)
        self.keys = [rows.permute(0, 2, 3, 1) for rows in self.key_rows]
        self.values = [rows.permute(0, 2, 1, 3) for rows in self.value_rows]
        equal = len(set(shapes)) == 1
        self._pieces = list(self.whole) if equal else [layer[None] for layer in (*self.keys, *self.values)]

    def write(self, layer: int, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """k and v [T, V, D] go to slots [T]: block times BLOCK_SIZE plus place in the block."""
        self.key_rows[layer].flatten(0, 1).index_copy_(0, slots, k)
        self.value_rows[layer].flatten(0, 1).index_copy_(0, slots, v)

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks (from, to), of all layers that lie in one piece at once."""
        for source, target in copies:
            for piece in self._pieces:
                piece[:, target].copy_(piece[:, source])

    def clear(self, blocks: torch.Tensor) -> None:
        """Zeros into blocks in every layer.

        Kernels that mask keys out multiply them by zero, and zero times what a failed pass of an earlier owner left
        there may be not a number.
        """
        for piece in self._pieces:
            piece.index_fill_(1, blocks, 0)
