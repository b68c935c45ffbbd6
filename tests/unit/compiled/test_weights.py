"""Which models have a compiled pass, in words where they have none, and weights that lose nothing on the way."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from outrider.inference.compiled import weights
from outrider.inference.compiled.tile import PANELS
from outrider.inference.compiled.vectors import LANES
from outrider.inference.compiled.weights import why_not
from outrider.inference.kv_store import LayerShape
from tests.unit.compiled.models import HEAD, HEADS, KV_HEADS, layers_of, model_of

CPU = torch.device("cpu")


def obstacle(model: Any, layers: list[LayerShape] | None = None) -> str:
    return why_not(model, layers or layers_of(model), torch.bfloat16, CPU) or ""


@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2"])
def test_llama_like_models_have_a_compiled_pass(architecture: str) -> None:
    assert obstacle(model_of(architecture)) == ""


@pytest.mark.parametrize(
    ("dtype", "device"), [(torch.float32, "cpu"), (torch.float16, "cpu"), (torch.bfloat16, "meta")]
)
def test_other_numbers_and_devices_are_an_obstacle(dtype: torch.dtype, device: str) -> None:
    model = model_of("llama")
    assert why_not(model, layers_of(model), dtype, torch.device(device)) == (
        "the compiled pass is for bfloat16 on a CPU"
    )


def test_a_processor_without_the_instructions_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """AVX2 alone is not enough, with FMA it is."""
    for features, words in (({"sse2", "avx2"}, "neither AVX-512 BF16 nor AVX2 with FMA"), ({"avx2", "fma"}, "")):
        monkeypatch.setattr(weights, "host_features", lambda names=features: frozenset(names))
        found = obstacle(model_of("llama"))
        assert words in found and bool(words) == bool(found)


@pytest.mark.parametrize("architecture", ["gpt2", "gemma3", "qwen3"])
def test_an_unknown_type_of_model_is_named(architecture: str) -> None:
    changes: dict[str, Any] = {"hidden_size": 64} if architecture == "gemma3" else {}
    model = model_of(architecture, **changes)
    assert f"models of type {model.config.model_type!r}" in obstacle(model, [LayerShape(KV_HEADS, HEAD)])


def test_every_obstacle_of_a_model_is_named() -> None:
    """Its parts, not its name, decide: an activation, biases, head sizes, layers that differ, norms of queries."""
    assert obstacle(model_of("llama", hidden_act="gelu")) == "activation 'gelu'"
    assert "biases" in obstacle(model_of("llama", attention_bias=True))
    assert "biases" in obstacle(model_of("llama", mlp_bias=True))
    assert "inner size" in obstacle(model_of("llama", intermediate_size=120))
    odd = model_of("llama", head_dim=16)
    assert obstacle(odd, [LayerShape(KV_HEADS, 16)] * 2) == "a head size that is no multiple of 32"
    usual = model_of("llama")
    assert obstacle(usual, [LayerShape(KV_HEADS, HEAD), LayerShape(KV_HEADS, HEAD, 8)]) == "layers of different shapes"
    disguised = model_of("qwen3", head_dim=HEAD, hidden_act="gelu")
    disguised.config.model_type = "llama"
    assert obstacle(disguised) == "activation 'gelu'; unknown parts of the attention"


def unpanelled(panels: npt.NDArray[np.int32]) -> npt.NDArray[np.uint16]:
    """[P, K / 2, LANES] back to rows [P * LANES, K]."""
    rows = np.ascontiguousarray(panels.transpose(0, 2, 1)).view(np.uint16)
    return rows.reshape(len(panels) * LANES, -1)


def bits(tensor: torch.Tensor) -> npt.NDArray[np.uint16]:
    return tensor.detach().contiguous().view(torch.uint16).numpy()


@pytest.mark.parametrize("outputs", [1, 31, 32, 40, 64])
def test_panels_hold_every_weight_where_it_belongs(outputs: int) -> None:
    """Whole pairs of panels; what is missing is zero."""
    weight = torch.randn(outputs, 6, generator=torch.Generator().manual_seed(outputs)).to(torch.bfloat16)
    panels = weights._panels(weight)
    assert panels.shape[0] % PANELS == 0 and panels.flags.c_contiguous
    rows = unpanelled(panels)
    assert np.array_equal(rows[:outputs], bits(weight))
    assert len(rows) - outputs < LANES * PANELS
    assert not rows[outputs:].any()


def test_a_packed_model_holds_what_its_modules_hold() -> None:
    """Queries, keys and values side by side with their biases; gate and up panel by panel."""
    model = model_of("qwen2")
    packed = weights.pack(model, layers_of(model), 64)
    embedding, qkv, bias, output, gate_up, down, norms_1, norms_2, last_norm, head, cos, sin, silu = packed.arrays
    assert np.array_equal(embedding, bits(model.model.embed_tokens.weight))
    assert np.array_equal(last_norm, bits(model.model.norm.weight))
    assert np.array_equal(unpanelled(head)[: packed.vocabulary], bits(model.lm_head.weight))
    for index, layer in enumerate(model.model.layers):
        projections = [layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj]
        assert np.array_equal(unpanelled(qkv[index]), bits(torch.cat([p.weight for p in projections])))
        assert np.array_equal(bias[index], torch.cat([p.bias for p in projections]).detach().float().numpy())
        assert np.array_equal(unpanelled(output[index]), bits(layer.self_attn.o_proj.weight))
        assert np.array_equal(unpanelled(down[index]), bits(layer.mlp.down_proj.weight))
        assert np.array_equal(unpanelled(gate_up[index][0::PANELS]), bits(layer.mlp.gate_proj.weight))
        assert np.array_equal(unpanelled(gate_up[index][1::PANELS]), bits(layer.mlp.up_proj.weight))
        assert np.array_equal(norms_1[index], bits(layer.input_layernorm.weight))
        assert np.array_equal(norms_2[index], bits(layer.post_attention_layernorm.weight))
    positions = torch.arange(64)[None]
    for ours, theirs in zip((cos, sin), model.model.rotary_emb(torch.zeros(1, dtype=torch.bfloat16), positions)):
        assert np.array_equal(ours, bits(theirs[0]))
    assert silu[0x3F80] == bits(torch.nn.functional.silu(torch.ones(1, dtype=torch.bfloat16)))[0]
    assert (packed.heads, packed.kv_heads, packed.head_dim, packed.layers) == (HEADS, KV_HEADS, HEAD, 2)


def test_a_cut_head_holds_the_rows_of_its_tokens_in_order() -> None:
    model = model_of("llama")
    ids = [0, 5, 17, 300, 319]
    packed = weights.pack(model, layers_of(model), 8, ids)
    head = unpanelled(packed.arrays[9])
    assert packed.vocabulary == len(ids)
    assert np.array_equal(head[: len(ids)], bits(model.lm_head.weight[ids]))
    assert not head[len(ids) :].any()
