"""Loads a Hugging Face causal language model and runs packed forward passes on it.

It knows torch and transformers; it does not know sessions, sampling or scheduling. One ``ModelRunner`` owns
the model and the tensors of its KV cache and is called by one thread only.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as transformers_logging

from outrider.errors import IncompatibleReplica
from outrider.inference.attention import CpuKernel, Kernel, PagedAttention, TorchKernel
from outrider.inference.kv_store import BLOCK_SIZE, KVStore
from outrider.inference.linear import can_pack, pack_linears
from outrider.inference.memory import choose_kv_bytes
from outrider.inference.packed import PackedPass
from outrider.inference.probe import attention_layers

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
_LEAST_BLOCKS = 3  # the start-up check runs two sessions side by side
_names = itertools.count()


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What to load and where: path or hub id, dtype, device, KV budget in bytes (0 measures what is free once
    the weights are loaded), and whether code of the model's repository may run."""

    model: str
    dtype: str = "bfloat16"
    device: str = "cpu"
    kv_bytes: int = 1 << 30
    trust_remote_code: bool = False


def _load(options: ModelOptions) -> Any:
    """The model in evaluation mode. Raises IncompatibleReplica for what is no decoder-only language model."""
    transformers_logging.disable_progress_bar()  # a bar is noise in a service's log
    config = AutoConfig.from_pretrained(options.model, trust_remote_code=options.trust_remote_code)
    if config.is_encoder_decoder:
        raise IncompatibleReplica(f"model {options.model!r} of type {config.model_type!r} is an encoder-decoder")
    model = AutoModelForCausalLM.from_pretrained(
        options.model, dtype=DTYPES[options.dtype], trust_remote_code=options.trust_remote_code
    )
    return model.to(options.device).eval()


def eos_ids(model_dir: str, config: Any) -> tuple[int, ...]:
    """Union of the end tokens that the configuration and the generation configuration declare."""
    declared = [config.get_text_config().eos_token_id]
    if not Path(model_dir).is_dir() or (Path(model_dir) / "generation_config.json").is_file():
        declared.append(GenerationConfig.from_pretrained(model_dir).eos_token_id)
    ids: set[int] = set()
    for entry in declared:
        ids.update([entry] if isinstance(entry, int) else entry or [])
    return tuple(sorted(ids))


def _max_positions(config: Any) -> int:
    return int(config.get_text_config().max_position_embeddings)


class ModelRunner:
    """A loaded model, its packed weights and its KV tensors."""

    block_size = BLOCK_SIZE

    def __init__(self, options: ModelOptions) -> None:
        self.options = options
        self.device = torch.device(options.device)
        dtype = DTYPES[options.dtype]
        self._model = _load(options)
        self._attention_name = f"outrider_{next(_names)}"
        with torch.inference_mode():
            self.layers = attention_layers(self._model, options.model, self._register)
        self.packed_linears = pack_linears(self._model) if can_pack(dtype, self.device) else 0
        self.num_blocks = self._affordable_blocks(dtype)
        self._store = KVStore(self.layers, self.num_blocks, dtype, self.device)
        self._attention = PagedAttention(self._kernel(dtype))
        self._register(self._attention)
        self.max_positions = _max_positions(self._model.config)
        self.eos_token_ids = eos_ids(options.model, self._model.config)
        self.logit_width = int(self._model.config.get_text_config().vocab_size)
        self.row_multiple = 1

    def _register(self, function: Any) -> None:
        AttentionInterface.register(self._attention_name, function)
        self._model.set_attn_implementation(self._attention_name)

    def _affordable_blocks(self, dtype: torch.dtype) -> int:
        per_block = sum(layer.bytes_per_block(dtype) for layer in self.layers)
        budget = self.options.kv_bytes
        if budget == 0:
            budget = choose_kv_bytes(self.device, -(-_max_positions(self._model.config) // BLOCK_SIZE) * per_block)
        blocks = budget // per_block
        if blocks < _LEAST_BLOCKS:
            words = f"a KV budget of {budget} bytes is less than {_LEAST_BLOCKS} blocks of {per_block}"
            raise IncompatibleReplica(words)
        return blocks

    def _kernel(self, dtype: torch.dtype) -> Kernel:
        self.compiled_attention = can_pack(dtype, self.device)
        if self.compiled_attention:
            return CpuKernel(self._store, self.layers, dtype)
        return TorchKernel(self._store, self.layers)

    @property
    def path(self) -> str:
        """Code path of a pass, in words."""
        linears = "packed linears" if self.packed_linears else "plain linears"
        attention = "compiled attention" if self.compiled_attention else "float64 attention"
        return f"{linears}, {attention}, rows in multiples of {self.row_multiple}"

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy cache blocks (from, to), as the block tables ask for."""
        self._store.copy_blocks(copies)

    @torch.inference_mode()
    def forward(self, plan: PackedPass) -> torch.Tensor:
        """Run one packed pass. Returns fp32 logits [W, V] of its wanted rows, padding rows included."""
        self._attention.begin(plan)
        output = self._model(
            input_ids=torch.from_numpy(plan.tokens)[None].to(self.device),
            position_ids=torch.from_numpy(plan.positions)[None].to(self.device),
            use_cache=False,
            logits_to_keep=torch.from_numpy(plan.wanted).to(self.device),
        )
        logits: torch.Tensor = output.logits[0]
        return logits.float()
