"""Ragged paged attention, registered with transformers' AttentionInterface.

A model calls ``PagedAttention`` once per layer with the packed queries, keys and values of one pass; it
writes the new keys and values to their blocks and lets each row attend to its own session. It does not know
sessions or scheduling: the pass is set by the runner before the model is called.

Two kernels give the same interface: the compiled one for CPUs and one in torch operators for every other
device and dtype. Both compute wider than the model's dtype and round once (design I1). ``accelerator`` has two more.
"""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch

from outrider.inference import attention_cpu
from outrider.inference.kv_store import BLOCK_SIZE, KVStore, LayerShape
from outrider.inference.packed import PADDING, PackedPass

Plan = TypeVar("Plan", contravariant=True)
"""A pass as a kernel wants it: a packed one, or its numbers on a device."""


class Kernel(Protocol[Plan]):
    """Attention of one layer's packed rows: q [T, H, D], k and v [T, V, D]; returns [T, H, D]."""

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: Plan, scale: float
    ) -> torch.Tensor:
        """Attention of one layer: stores k and v, returns [T, H, D]."""


class CpuKernel:
    """The compiled kernel over bit views of the caches; bfloat16 and float32."""

    def __init__(self, store: KVStore, layers: Sequence[LayerShape], dtype: torch.dtype) -> None:
        self._bits, self._shift = (
            (torch.uint16, np.uint32(16)) if dtype is torch.bfloat16 else (torch.uint32, np.uint32(0))
        )
        self._caches = [(self._view(k), self._view(v)) for k, v in zip(store.keys, store.values, strict=True)]
        self._layers = layers

    def _view(self, tensor: torch.Tensor) -> Any:
        return tensor.contiguous().view(self._bits).numpy()

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: PackedPass, scale: float
    ) -> torch.Tensor:
        """Attention of one layer: stores k and v, returns [T, H, D]."""
        keys, values = self._caches[layer]
        attention_cpu.write_rows(self._view(k), self._view(v), keys, values, plan.blocks, plan.offsets)
        out = torch.zeros(q.shape, dtype=q.dtype)
        window = self._layers[layer].window
        attention_cpu.attend(
            self._view(q),
            keys,
            values,
            self._view(out),
            plan.segments,
            plan.tables,
            np.float32(scale),
            window,
            self._shift,
        )
        return out


class TorchKernel:
    """Attention in torch operators and float64, one session at a time; any device and dtype."""

    def __init__(self, store: KVStore, layers: Sequence[LayerShape]) -> None:
        self._store = store
        self._layers = layers

    def _write(self, layer: int, k: torch.Tensor, v: torch.Tensor, plan: PackedPass) -> None:
        rows = torch.from_numpy((plan.blocks != PADDING).nonzero()[0]).to(k.device)
        blocks = torch.from_numpy(plan.blocks).to(k.device).long()[rows]
        offsets = torch.from_numpy(plan.offsets).to(k.device).long()[rows]
        self._store.keys[layer][blocks, :, :, offsets] = k[rows]
        self._store.values[layer][blocks, :, offsets, :] = v[rows]

    def __call__(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, plan: PackedPass, scale: float
    ) -> torch.Tensor:
        """Attention of one layer: stores k and v, returns [T, H, D]."""
        self._write(layer, k, v, plan)
        out = torch.zeros_like(q)
        for (first, rows, start), table in zip(plan.segments.tolist(), plan.tables.tolist(), strict=True):
            end = start + rows
            blocks = torch.tensor(table[: -(-end // BLOCK_SIZE)], device=q.device)
            keys = self._store.keys[layer][blocks].permute(1, 2, 0, 3).flatten(2)[:, :, :end].double()
            values = self._store.values[layer][blocks].transpose(0, 1).flatten(1, 2)[:, :end].double()
            query = q[first : first + rows].double() * scale
            out[first : first + rows] = _attend_one(query, keys, values, start, self._layers[layer].window).to(q.dtype)
        return out


def _attend_one(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int, window: int) -> torch.Tensor:
    """query [R, H, D], keys [V, D, L], values [V, L, D] in float64 -> [R, H, D]."""
    rows, heads, size = query.shape
    grouped = query.transpose(0, 1).reshape(keys.shape[0], -1, size)
    scores = (grouped @ keys).view(heads, rows, -1)
    distance = torch.arange(start, start + rows, device=query.device)[:, None] - torch.arange(
        scores.shape[-1], device=query.device
    )
    hidden = (distance < 0) | (distance >= window) if window > 0 else distance < 0
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    mixed = weights.view(keys.shape[0], -1, scores.shape[-1]) @ values
    return mixed.view(heads, rows, -1).transpose(0, 1)


Pass = TypeVar("Pass")


class PagedAttention(Generic[Pass]):
    """The function that a model calls as its attention; holds the pass that is being computed."""

    def __init__(self, kernel: Kernel[Pass]) -> None:
        self._kernel = kernel
        self._plan: Pass | None = None

    def begin(self, plan: Pass) -> None:
        """Set the pass that the next call of the model computes."""
        self._plan = plan

    def __call__(
        self, module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, scaling: float, **_: Any
    ) -> tuple[torch.Tensor, None]:
        """q [1, H, T, D], k and v [1, V, T, D] -> [1, T, H, D]."""
        if self._plan is None:
            raise RuntimeError("the model was called outside a pass")
        rows_q, rows_k, rows_v = (x[0].transpose(0, 1) for x in (q, k, v))
        return self._kernel(module.layer_idx, rows_q, rows_k, rows_v, self._plan, scaling)[None], None
