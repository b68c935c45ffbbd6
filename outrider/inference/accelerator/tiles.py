"""Attention whose bits do not depend on the other rows, in torch operators: every product has one fixed shape.

TILE_SESSIONS sessions of PIECE_ROWS rows meet TILE_BLOCKS blocks of keys at a time, always so many, filled up where
there are fewer; key tiles come in order from the first, in fp32, with a running maximum (online softmax; Milakov and
Gimelshein, arXiv 1805.02867). A library chooses its kernel by the shape, and inside one kernel rows and batch entries
are treated alike, so a row's sums are added in one order. A tile of keys that a row does not see changes nothing: its
weights are exact zeros, and the running sums are multiplied by exactly 1.
"""

from collections.abc import Sequence

import torch

from outrider.inference.accelerator.cuts import TILE_BLOCKS, TILE_SESSIONS
from outrider.inference.accelerator.device_pass import DevicePass, Grid
from outrider.inference.accelerator.fast import fold, unfold
from outrider.inference.accelerator.row_store import RowStore
from outrider.inference.kv_store import BLOCK_SIZE, LayerShape

_LOWEST = -1e30  # below every score and finite: minus infinity minus itself is not a number
_KEYS = TILE_BLOCKS * BLOCK_SIZE


class TileKernel:
    """A kernel for any device and dtype, over grids of whole tiles."""

    words = "attention in fixed tiles"

    def __init__(self, store: RowStore, layers: Sequence[LayerShape]) -> None:
        self._store = store
        self._layers = layers

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: DevicePass, scale: float
    ) -> torch.Tensor:
        """Attention of one layer: stores k and v, returns [T, H, D]."""
        self._store.write(layer, plan.slots, k, v)
        outs = [
            self._attend(layer, q, grid, slice(first, first + TILE_SESSIONS), scale)
            for grid in plan.grids
            for first in range(0, grid.shape.sessions, TILE_SESSIONS)
        ]
        return torch.cat(outs).flatten(0, 1)[plan.place].to(q.dtype)

    def _attend(self, layer: int, q: torch.Tensor, grid: Grid, sessions: slice, scale: float) -> torch.Tensor:
        """Attention of TILE_SESSIONS sessions of a grid: [TILE_SESSIONS, R, H, D] in fp32."""
        shape = self._layers[layer]
        group = q.shape[1] // shape.kv_heads
        query = fold(q[grid.rows[sessions]].float() * scale, group)
        visible = grid.visible(shape.window)[sessions].repeat_interleave(group, 1)[:, None]
        highest = torch.full((*query.shape[:3], 1), _LOWEST, device=q.device)
        total, mixed = torch.zeros_like(highest), torch.zeros_like(query)
        for tile in range(0, grid.shape.blocks, TILE_BLOCKS):
            blocks = grid.tables[sessions, tile : tile + TILE_BLOCKS]
            keys, values = (
                rows[layer][blocks].flatten(1, 2).transpose(1, 2).float()  # [TILE_SESSIONS, V, _KEYS, D]
                for rows in (self._store.key_rows, self._store.value_rows)
            )
            seen = visible[..., tile * BLOCK_SIZE : tile * BLOCK_SIZE + _KEYS]
            scores = (query @ keys.transpose(2, 3)).masked_fill(~seen, float("-inf"))
            before, highest = highest, torch.maximum(highest, scores.amax(-1, keepdim=True))
            weights, shrink = torch.exp(scores - highest), torch.exp(before - highest)
            total = total * shrink + weights.sum(-1, keepdim=True)
            mixed = mixed * shrink + weights @ values
        return unfold(mixed / total, group)
