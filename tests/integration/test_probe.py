"""A model whose bits could depend on its neighbours in a pass is refused when it is loaded."""

from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.errors import IncompatibleReplica
from outrider.inference.model import ModelOptions, ModelRunner


@pytest.mark.parametrize("kind", ["longrope", "dynamic"])
def test_rotary_factors_that_follow_the_longest_session_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    rope: dict[str, object] = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0}
    if kind == "longrope":
        rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 128}
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rope_parameters=rope,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(IncompatibleReplica, match=kind):
        ModelRunner(ModelOptions(str(tmp_path), dtype="float32", kv_bytes=1 << 22))
