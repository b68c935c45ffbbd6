"""Small models with heads of 32 numbers, which the compiled pass takes, built in memory."""

from typing import Any

import torch

from outrider.inference.kv_store import LayerShape
from tests.tiny import ARCHITECTURES

HEAD = 32
HEADS, KV_HEADS = 4, 2


def model_of(architecture: str, **changes: Any) -> Any:
    """A bfloat16 model in evaluation mode; equal arguments give equal weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ARCHITECTURES[architecture]({"hidden_size": HEADS * HEAD, "initializer_range": 0.1} | changes)
        for name, weight in model.named_parameters():
            if name.endswith("bias") or "norm" in name:  # they begin as zeros and ones
                torch.nn.init.normal_(weight, 1.0 if "norm" in name else 0.0, 0.3)
    return model.to(torch.bfloat16).eval()


def layers_of(model: Any, window: int = 0) -> list[LayerShape]:
    """What its layers store."""
    return [LayerShape(KV_HEADS, HEAD, window)] * len(model.model.layers)
