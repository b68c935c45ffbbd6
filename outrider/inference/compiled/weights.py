"""Lays the weights of a Llama-like model out for the compiled pass, or says why it cannot.

It takes the families of _TYPES (RMS norms, grouped attention with rotary positions, a gated SiLU block) and checks that
the modules are as it knows them. Everything but the embedding is copied; the modules may be freed afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outrider.inference.compiled.tile import PANELS
from outrider.inference.compiled.vectors import LANES, host_features
from outrider.inference.kv_store import LayerShape

Array = npt.NDArray[Any]
_TYPES = ("llama", "mistral", "qwen2")
_KNOWN_CHILDREN = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_KNOWN_PROJECTIONS = {"q_proj", "k_proj", "v_proj", "o_proj"}
_NEEDED_FEATURES = ({"avx512bf16"}, {"avx2", "fma"})


@dataclass(frozen=True, slots=True)
class PackedModel:
    """``arrays`` in the order of ``kernels.run_pass``; what else a pass needs to know of the model."""

    arrays: tuple[Array, ...]
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    vocabulary: int
    scale: float
    epsilon: float
    window: int


def _obstacles(model: Any, layers: Sequence[LayerShape]) -> list[str]:
    config = model.config
    block = model.model.layers[0] if config.model_type in _TYPES else None
    if block is None:
        return [f"models of type {config.model_type!r} have no compiled pass"]
    checks = [
        (config.hidden_act == "silu", f"activation {config.hidden_act!r}"),
        (len(set(layers)) == 1, "layers of different shapes"),
        (set(dict(block.named_children())) == _KNOWN_CHILDREN, "unknown parts of a layer"),
        (set(dict(block.self_attn.named_children())) == _KNOWN_PROJECTIONS, "unknown parts of the attention"),
        (block.mlp.gate_proj.bias is None and block.self_attn.o_proj.bias is None, "biases in the MLP or the output"),
        (config.hidden_size % 2 == 0 and config.intermediate_size % LANES == 0, "an odd hidden or inner size"),
        (layers[0].head_dim % (LANES * PANELS) == 0, f"a head size that is no multiple of {LANES * PANELS}"),
    ]
    return [words for fine, words in checks if not fine]


def why_not(model: Any, layers: Sequence[LayerShape], dtype: torch.dtype, device: torch.device) -> str | None:
    """Why this model has no compiled pass here; None when it has one."""
    if device.type != "cpu" or dtype is not torch.bfloat16:
        return "the compiled pass is for bfloat16 on a CPU"
    if not any(needed <= host_features() for needed in _NEEDED_FEATURES):
        return "this processor has neither AVX-512 BF16 nor AVX2 with FMA"
    return "; ".join(_obstacles(model, layers)) or None


def _bits(tensor: torch.Tensor) -> Array:
    return tensor.detach().to(torch.bfloat16).contiguous().view(torch.uint16).numpy()


def _panels(weight: torch.Tensor) -> Array:
    """[N, K] -> pairs of columns in panels of LANES outputs: [P, K / 2, LANES] int32; missing outputs are zero."""
    outputs, columns = weight.shape
    missing = -outputs % (LANES * PANELS)
    padded = torch.nn.functional.pad(weight.detach().to(torch.bfloat16), (0, 0, 0, missing))
    pairs = _bits(padded).view(np.int32).reshape(-1, LANES, columns // 2)
    return np.ascontiguousarray(pairs.transpose(0, 2, 1))


def _gate_and_up(mlp: Any) -> Array:
    """Panels of gate and up in turn, so that one tile holds both."""
    size, columns = mlp.gate_proj.weight.shape
    both = torch.stack([p.weight.detach().view(-1, LANES, columns) for p in (mlp.gate_proj, mlp.up_proj)], dim=1)
    return _panels(both.reshape(2 * size, columns))


def _mixed(attention: Any) -> tuple[Array, Array]:
    """Weights of queries, keys and values as one product, and their biases (fp32; zeros without)."""
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    biases = [torch.zeros(p.weight.shape[0]) if p.bias is None else p.bias.detach().float() for p in projections]
    return _panels(torch.cat([p.weight.detach() for p in projections])), torch.cat(biases).numpy()


def _rotary(model: Any, positions: int) -> tuple[Array, Array]:
    """cos and sin [positions, D] as the model itself computes them."""
    some = torch.zeros(1, 1, 1, dtype=torch.bfloat16)
    cos, sin = model.model.rotary_emb(some, torch.arange(positions)[None])
    return _bits(cos[0]), _bits(sin[0])


def _silu() -> Array:
    """silu of every bfloat16, indexed by its bits."""
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    return _bits(torch.nn.functional.silu(every))


def head_weight(model: Any, ids: Sequence[int] | None) -> torch.Tensor:
    """The head's weights [E, C]: all tokens or those of ``ids``."""
    weight: torch.Tensor = model.lm_head.weight.detach()
    return weight if ids is None else weight[torch.tensor(list(ids))]


def pack(model: Any, layers: Sequence[LayerShape], positions: int, ids: Sequence[int] | None = None) -> PackedModel:
    """Copy a model's weights; ``ids`` cuts the head to these tokens."""
    blocks, shape, config = model.model.layers, layers[0], model.config
    mixed, biases = zip(*(_mixed(block.self_attn) for block in blocks), strict=True)
    arrays = (
        _bits(model.model.embed_tokens.weight),
        np.stack(mixed),
        np.stack(biases),
        np.stack([_panels(block.self_attn.o_proj.weight) for block in blocks]),
        np.stack([_gate_and_up(block.mlp) for block in blocks]),
        np.stack([_panels(block.mlp.down_proj.weight) for block in blocks]),
        np.stack([_bits(block.input_layernorm.weight) for block in blocks]),
        np.stack([_bits(block.post_attention_layernorm.weight) for block in blocks]),
        _bits(model.model.norm.weight),
        _panels(head_weight(model, ids)),
        *_rotary(model, positions),
        _silu(),
    )
    return PackedModel(
        arrays=arrays,
        hidden=config.hidden_size,
        inner=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        layers=len(blocks),
        vocabulary=len(ids) if ids is not None else int(model.lm_head.weight.shape[0]),
        scale=float(blocks[0].self_attn.scaling),
        epsilon=float(blocks[0].input_layernorm.variance_epsilon),
        window=shape.window,
    )
