"""The reference outside the product: greedy answers equal transformers' own, token for token, in fp32.

And what cannot be served exactly is refused when it is loaded, by name.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BambaConfig,
    BambaForCausalLM,
    JambaConfig,
    JambaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from outrider.errors import IncompatibleReplica
from outrider.replica_config import ReplicaConfig
from tests.integration.prompts import prompt_of
from tests.stack import Farm, ReplicaServer, own_stack
from tests.tiny import ARCHITECTURES, save_tokenizer

NEW_TOKENS = 64
LENGTHS = (1, 7, 40, 150)


def reference(model: Any, prompt: Sequence[int]) -> tuple[list[int], list[float]]:
    """Ids that transformers generates alone, and at each the gap between the two best logits."""
    ids = torch.tensor([list(prompt)])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        return_dict_in_generate=True,
        output_logits=True,
    )
    gaps = []
    for logits in out.logits:
        best, second = logits[0].topk(2).values.tolist()
        gaps.append(best - second)
    return out.sequences[0, len(prompt) :].tolist(), gaps


def assert_equal(mine: list[int], theirs: list[int], gaps: list[float], what: str) -> None:
    """Equal ids; the message tells a numeric tie from a bug."""
    if mine != theirs:
        first = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
        raise AssertionError(f"{what}: token {first} differs; gap of the two best logits there: {gaps[first]:.3g}")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
async def test_greedy_answers_are_those_of_transformers(farm: Farm, models: Path, architecture: str) -> None:
    """Prompts of 1 to 150 tokens packed together, prefilled in chunks, paged, with and without speculation."""
    folder = models / architecture
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    expected = {length: reference(model, prompt_of(length)) for length in LENGTHS}
    target = await farm.replica("target", folder, max_rows=64)
    draft = await farm.replica("draft", folder, max_rows=64)
    async with own_stack(target, draft) as stack:
        for k in (0, 4):
            answers = await asyncio.gather(
                *(stack.generate(prompt_of(length), k, max_new_tokens=NEW_TOKENS) for length in LENGTHS)
            )
            for length, answer in zip(LENGTHS, answers, strict=True):
                assert_equal(answer.ids, *expected[length], f"{architecture}, {length} tokens of prompt, k={k}")
                answer.check_all_accepted()


def mamba() -> Any:
    config = MambaConfig(vocab_size=320, hidden_size=32, num_hidden_layers=2, state_size=8)
    return MambaForCausalLM(config)


def jamba() -> Any:
    config = JambaConfig(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        num_experts=2,
        mamba_d_state=8,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    )
    return JambaForCausalLM(config)


def bamba() -> Any:
    config = BambaConfig(
        vocab_size=320,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_layer_indices=[1],
        mamba_n_heads=8,
        mamba_d_head=8,
        mamba_n_groups=1,
        mamba_d_state=8,
        mamba_expand=2,
    )
    return BambaForCausalLM(config)


def t5() -> Any:
    config = T5Config(vocab_size=320, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return T5ForConditionalGeneration(config)


REFUSED = {"mamba": mamba, "jamba": jamba, "bamba": bamba, "t5": t5}


@pytest.mark.parametrize("name", REFUSED)
async def test_models_that_cannot_be_cut_back_are_refused_by_name(tmp_path: Path, name: str) -> None:
    """A running state cannot follow a rejected block: an error at load that names model and type, never silence."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        REFUSED[name]().save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    config = ReplicaConfig(model=str(tmp_path), listen="127.0.0.1:0", dtype="float32", threads=1)
    with pytest.raises(IncompatibleReplica) as caught:
        await ReplicaServer.start("target", config)
    assert str(tmp_path) in caught.value.message
    assert f"{name!r}" in caught.value.message
