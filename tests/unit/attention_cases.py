"""Layers to try attention kernels on, random rows for them, and attention as a textbook writes it."""

from dataclasses import dataclass

import torch

CPU = torch.device("cpu")
Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """Heads, key/value heads, head size and window of a layer."""

    heads: int
    kv_heads: int
    size: int
    window: int = 0


CASES = [Case(4, 4, 16), Case(9, 3, 64), Case(4, 1, 32), Case(2, 2, 12), Case(4, 2, 32, 5), Case(3, 1, 16, 40)]


def random_rows(rows: int, case: Case, dtype: torch.dtype, seed: int = 0) -> Rows:
    """q [T, H, D], k and v [T, V, D]."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(rows, case.heads, case.size), *[(rows, case.kv_heads, case.size)] * 2]
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return q, k, v


def dense(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int) -> torch.Tensor:
    """Textbook causal attention in float64, with neither blocks nor groups."""
    rows, heads, size = q.shape
    keys = k.double().repeat_interleave(heads // k.shape[1], 1).transpose(0, 1)
    values = v.double().repeat_interleave(heads // v.shape[1], 1).transpose(0, 1)
    scores = q.double().transpose(0, 1) @ keys.transpose(1, 2) * size**-0.5
    distance = torch.arange(rows)[:, None] - torch.arange(rows)
    hidden = (distance < 0) | ((distance >= window) if window else torch.zeros_like(distance, dtype=torch.bool))
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hrc,hcd->rhd", weights, values)
