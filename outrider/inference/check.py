"""Whether a path computes the model: its logits of a few tokens beside those of transformers' own attention.

The tokens come as a prompt, a block to verify and a single step, because each may take another way through a path.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.packed import PackedPass, Segment, pack

SANE = 0.3
"""Relative difference of the logits of two right implementations in bfloat16 is below 0.1."""
_STEPS = (20, 5, 1)


class Computes(Protocol):
    """What has a way to compute a pass."""

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """fp32 logits [W, V]."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Tokens and the model's logits [T, V] for them."""

    tokens: list[int]
    logits: torch.Tensor


def expected(model: Any, vocabulary: int, device: torch.device) -> Expected:
    """What transformers computes by itself. The model's attention is transformers' own afterwards."""
    tokens = [1 + i % max(1, vocabulary - 1) for i in range(sum(_STEPS))]
    model.set_attn_implementation("sdpa")
    logits = model(input_ids=torch.tensor([tokens], device=device), use_cache=False).logits[0].float()
    return Expected(tokens, logits)


def difference(path: Computes, wanted: Expected) -> float:
    """Relative difference of a path's logits, over the tokens that its head has. Writes into the first block."""
    parts, start = [], 0
    for rows in _STEPS:
        tokens = wanted.tokens[start : start + rows]
        parts.append(path.forward(pack([Segment(tokens, start, [0], rows)], BLOCK_SIZE, 1)).clone())
        start += rows
    ours = torch.cat(parts)
    kept = torch.isfinite(ours)
    if not kept.any() or torch.isnan(ours).any():
        return float("inf")
    return float((ours - wanted.logits)[kept].norm() / wanted.logits[kept].norm())
