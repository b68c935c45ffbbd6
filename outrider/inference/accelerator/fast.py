"""Attention by torch's scaled_dot_product_attention over gathered blocks: as fast as torch operators get.

Steps of many sessions are one call: the query heads that share a key head are rows of it, so no key is repeated and
any of torch's kernels takes it (the memory-efficient one on CUDA, with a mask). A prompt is a call of its own, causal
by its lower right corner, which FlashAttention (Dao, 2023) takes without a mask. Bits depend on the calls' shapes.
"""

from collections.abc import Sequence

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from outrider.inference.accelerator.device_pass import DevicePass, Grid
from outrider.inference.accelerator.row_store import RowStore
from outrider.inference.kv_store import LayerShape


class FastKernel:
    """A kernel for any device and dtype; sums are as wide as torch's kernels make them (fp32 for 16-bit types)."""

    words = "torch's attention"

    def __init__(self, store: RowStore, layers: Sequence[LayerShape]) -> None:
        self._store = store
        self._layers = layers
        if store.key_rows[0].is_cuda:  # cuDNN builds a plan for every shape, and shapes change with each block of keys
            torch.backends.cuda.enable_cudnn_sdp(False)

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: DevicePass, scale: float
    ) -> torch.Tensor:
        """Attention of one layer: stores k and v, returns [T, H, D]."""
        self._store.write(layer, plan.slots, k, v)
        outs = [self._attend(layer, q, grid, scale).reshape(-1, *q.shape[1:]) for grid in plan.grids]
        return torch.cat(outs)[plan.place]

    def _attend(self, layer: int, q: torch.Tensor, grid: Grid, scale: float) -> torch.Tensor:
        """Attention of a grid: [S, R, H, D]."""
        keys, values = (
            rows[layer][grid.tables].flatten(1, 2)[:, : grid.keys].transpose(1, 2)  # [S, V, L, D]
            for rows in (self._store.key_rows, self._store.value_rows)
        )
        query, window = q[grid.rows], self._layers[layer].window
        if grid.shape.end and not window:
            causal = causal_lower_right(grid.shape.rows, grid.keys)
            out = scaled_dot_product_attention(
                query.transpose(1, 2), keys, values, causal, scale=scale, enable_gqa=query.shape[2] != keys.shape[1]
            )
            return out.transpose(1, 2)
        group = query.shape[2] // keys.shape[1]
        bias = grid.bias(window, group, query.dtype)
        return unfold(scaled_dot_product_attention(fold(query, group), keys, values, bias, scale=scale), group)


def fold(query: torch.Tensor, group: int) -> torch.Tensor:
    """[S, R, V * G, D] -> [S, V, R * G, D]: query heads of one key head are rows beside each other."""
    sessions, rows, heads, size = query.shape
    return query.view(sessions, rows, heads // group, group, size).transpose(1, 2).flatten(2, 3)


def unfold(out: torch.Tensor, group: int) -> torch.Tensor:
    """[S, V, R * G, D] -> [S, R, V * G, D]."""
    sessions, kv_heads, rows, size = out.shape
    return out.view(sessions, kv_heads, rows // group, group, size).transpose(1, 2).flatten(2, 3)
