"""Linear layers with weights packed once for oneDNN: faster than plain ones, and row-count invariant.

A packed product gives each row the same bits whatever the number of rows, from 2 rows on (design I1); the
plain fp32 product does not. It knows one weight matrix and nothing of the model around it.
"""

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

_ROWS_HINT = 8
"""Row count that the packing is laid out for: a verify block. Other counts work and give the same bits."""


class PackedLinear(nn.Module):
    """Replaces a Linear (or GPT-2's transposed Conv1D) of a frozen model on a CPU."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.out_features = weight.shape[0]
        self._bias = bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS_HINT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., in_features] -> [..., out_features]."""
        flat = x.reshape(-1, x.shape[-1])
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(flat, self._packed, self._bias, "none", [], "")
        return out.view(*x.shape[:-1], self.out_features)


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether packed products exist for this dtype and device."""
    return device.type == "cpu" and dtype in (torch.bfloat16, torch.float32) and torch._C._has_mkldnn


def pack_linears(model: nn.Module) -> int:
    """Replace every linear layer in place; returns how many. The plain weights are freed unless shared."""
    replaced = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, PackedLinear(child.weight.detach(), child.bias))
            elif isinstance(child, Conv1D):
                setattr(parent, name, PackedLinear(child.weight.detach().T, child.bias))
            else:
                continue
            replaced += 1
    return replaced
