"""Random models of Llama shapes for checks on a device, so that nothing has to be downloaded there."""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SHAPES = {
    "tiny": (256, 4, 4, 2, 512, 1000),
    "1B": (2048, 16, 32, 8, 8192, 128256),
    "8B, 8 of 32 layers": (4096, 8, 32, 8, 14336, 128256),
}
"""Hidden size, layers, heads, key/value heads, inner size, vocabulary."""


def save(shape: str, folder: Path, dtype: torch.dtype, device: str) -> str:
    """A model of a shape as a folder, drawn on the device with a fixed seed."""
    hidden, layers, heads, kv_heads, inner, vocabulary = SHAPES[shape]
    config = LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        vocab_size=vocabulary,
        max_position_embeddings=4096,
        tie_word_embeddings=not shape.startswith("8B"),
    )
    path = folder / f"{shape} {dtype}".replace(" ", "_")
    torch.manual_seed(0)
    with torch.device(device):
        LlamaForCausalLM._from_config(config, dtype=dtype).save_pretrained(path)
    return str(path)
