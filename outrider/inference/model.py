"""Loads a Hugging Face causal language model and runs packed forward passes on it.

It knows torch and transformers; it does not know sessions, sampling or scheduling. One ``ModelRunner`` owns
the model and the tensors of its KV cache and is called by one thread only.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as transformers_logging

from outrider.errors import IncompatibleReplica
from outrider.inference.accelerator.path import DevicePath
from outrider.inference.accelerator.row_store import RowStore
from outrider.inference.accelerator.start import start
from outrider.inference.check import SANE, difference, expected
from outrider.inference.compiled import artefacts, weights
from outrider.inference.compiled.build import build
from outrider.inference.hook import Hook
from outrider.inference.kv_store import BLOCK_SIZE, KVStore
from outrider.inference.memory import choose_kv_bytes
from outrider.inference.packed import PackedPass
from outrider.inference.paths import CompiledPath, EagerPath, PassPath
from outrider.inference.probe import attention_layers

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
_LEAST_BLOCKS = 3  # the start-up check runs two sessions side by side
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What to load and where: path or hub id, dtype, device, KV budget in bytes (0 measures what is free once
    the weights are loaded), and whether code of the model's repository may run. ``kernels`` other than plain are
    those of ``accelerator.path``: fast or tiles."""

    model: str
    dtype: str = "bfloat16"
    device: str = "cpu"
    kv_bytes: int = 1 << 30
    trust_remote_code: bool = False
    compile: str = "auto"
    threads: int = 1
    head_ids: tuple[int, ...] | None = None
    kernels: str = "plain"


def load(options: ModelOptions) -> Any:
    """The model in evaluation mode. Weights are safetensors: other files are pickles, which can run code.

    Raises IncompatibleReplica for what is no decoder-only language model, and OSError where there are no safetensors.
    """
    transformers_logging.disable_progress_bar()  # a bar is noise in a service's log
    config = AutoConfig.from_pretrained(options.model, trust_remote_code=options.trust_remote_code)
    if config.is_encoder_decoder:
        raise IncompatibleReplica(f"model {options.model!r} of type {config.model_type!r} is an encoder-decoder")
    model = AutoModelForCausalLM.from_pretrained(
        options.model,
        dtype=DTYPES[options.dtype],
        trust_remote_code=options.trust_remote_code,
        use_safetensors=True,
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
    """A loaded model, the tensors of its KV cache, and the path that its passes take."""

    block_size = BLOCK_SIZE

    def __init__(self, options: ModelOptions) -> None:
        self.options = options
        self.device = torch.device(options.device)
        dtype = DTYPES[options.dtype]
        model = load(options)
        self._config = model.config
        hook = Hook(model)
        with torch.inference_mode():
            self.layers = attention_layers(model, options.model, hook.install)
        self.obstacle = "it is off" if options.compile == "off" else self._obstacle(model, dtype)
        self.num_blocks = self._affordable_blocks(dtype)
        kind = KVStore if options.kernels == "plain" else RowStore
        self._store = kind(self.layers, self.num_blocks, dtype, self.device)
        self.max_positions = _max_positions(self._config)
        self.eos_token_ids = eos_ids(options.model, self._config)
        self.logit_width = int(self._config.get_text_config().vocab_size)
        self.row_multiple = 1
        self._check_head()
        self._path = self._choose(model, hook)

    def _check_head(self) -> None:
        """Raises IncompatibleReplica when the head is to be cut to tokens that it does not have."""
        unknown = [token for token in self.options.head_ids or () if not 0 <= token < self.logit_width]
        if unknown:
            raise IncompatibleReplica(f"the head has {self.logit_width} tokens and cannot be cut to token {unknown[0]}")

    def _obstacle(self, model: Any, dtype: torch.dtype) -> str | None:
        """Why the compiled pass is not possible. Raises IncompatibleReplica when it was asked for."""
        if self.options.kernels != "plain":
            return f"the kernels are {self.options.kernels}"
        obstacle = weights.why_not(model, self.layers, dtype, self.device)
        if obstacle and self.device.type != "cpu":
            obstacle += "; graphs are for OUTRIDER_ROW_INVARIANT=on or off"
        if obstacle and self.options.compile == "on":
            raise IncompatibleReplica(f"a compiled pass was asked for: {obstacle}")
        return obstacle

    def _choose(self, model: Any, hook: Hook) -> PassPath:
        """The kernels that were asked for; the compiled pass when it is possible and its machine code is there or was
        asked for; else modules."""
        options = self.options
        if isinstance(self._store, RowStore):
            with torch.inference_mode():
                return start(model, hook, self.layers, self._store, options.head_ids, options.kernels, options.compile)
        if self.obstacle is None:
            if options.compile == "on":
                build()
            if artefacts.are_ready():
                path = self._compiled(model)
                if path is not None:
                    return path
        ready = self.obstacle is not None or artefacts.are_ready()
        return EagerPath(model, hook, self.layers, self._store, options.head_ids, ready)

    @property
    def upgradable(self) -> bool:
        """Whether the compiled pass would be possible and is not used, for want of its machine code."""
        return self.obstacle is None and not isinstance(self._path, CompiledPath)

    @torch.inference_mode()
    def upgrade(self) -> bool:
        """Go over to the compiled pass, whose machine code is there by now. The cache's content is void then."""
        path = self._compiled(load(self.options))
        if path is None:
            return False
        self._path = path
        return True

    def _compiled(self, model: Any) -> CompiledPath | None:
        """The compiled path, unless its logits are not those of the model; then never again."""
        with torch.inference_mode():
            path = CompiledPath(
                model, self.layers, self._store, self.max_positions, self.options.head_ids, self.options.threads
            )
            found = self._difference(model, path)
        if found < SANE:
            torch.set_num_threads(1)  # the passes have threads of their own; a second pool would take their cores
            return path
        path.close()
        self.obstacle = f"its logits differ from the model's by {found:.2f}"
        log.warning("the compiled pass is not used: %s", self.obstacle)
        if self.options.compile == "on":
            raise IncompatibleReplica(f"a compiled pass was asked for: {self.obstacle}")
        return None

    def _difference(self, model: Any, path: CompiledPath) -> float:
        """Relative difference between the path's logits and those of transformers alone, over a few tokens."""
        return difference(path, expected(model, self.logit_width, self.device))

    def _affordable_blocks(self, dtype: torch.dtype) -> int:
        per_block = sum(layer.bytes_per_block(dtype) for layer in self.layers)
        budget = self.options.kv_bytes
        if budget == 0:
            budget = choose_kv_bytes(self.device, -(-_max_positions(self._config) // BLOCK_SIZE) * per_block)
        blocks = budget // per_block
        if blocks < _LEAST_BLOCKS:
            words = f"a KV budget of {budget} bytes is less than {_LEAST_BLOCKS} blocks of {per_block}"
            raise IncompatibleReplica(words)
        return blocks

    @property
    def path(self) -> str:
        """Code path of a pass, in words."""
        return f"{self._path.words}, rows in multiples of {self.row_multiple}"

    @torch.inference_mode()
    def record(self, plan: PackedPass) -> None:
        """Record passes of this one's shape now, where the path has graphs. Raises RuntimeError when it cannot."""
        if isinstance(self._path, DevicePath):
            self._path.record(plan)

    @property
    def recorded(self) -> int:
        """Shapes of passes that replay; 0 where the path has no graphs."""
        return self._path.recorded if isinstance(self._path, DevicePath) else 0

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy cache blocks (from, to), as the block tables ask for."""
        self._store.copy_blocks(copies)

    @torch.inference_mode()
    def forward(self, plan: PackedPass) -> torch.Tensor:
        """Run one packed pass. Returns fp32 logits [W, V] of its wanted rows, padding rows included.

        They are valid until the next pass.
        """
        return self._path.forward(plan)
