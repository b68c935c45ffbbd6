"""The ways to compute a pass: transformers' modules as they are, or the compiled function. ``accelerator`` has another.

Each holds a loaded model and computes logits from a packed pass and the tensors of the cache. Which one is
used is the runner's choice. Bits differ between the two; within one they do not depend on the other rows.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from outrider.inference.attention import CpuKernel, Kernel, PagedAttention, TorchKernel
from outrider.inference.compiled import weights
from outrider.inference.compiled.forward import CompiledForward
from outrider.inference.hook import NOWHERE, Hook, complement
from outrider.inference.kv_store import KVStore, LayerShape
from outrider.inference.linear import can_pack, pack_linears
from outrider.inference.packed import PackedPass


class PassPath(Protocol):
    """One way to compute a pass."""

    @property
    def words(self) -> str:
        """What it is, for people and for the comparison of replicas."""

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """fp32 logits [W, V]; valid until the next pass."""


class EagerPath:
    """transformers' modules with packed linears; the attention is this project's."""

    def __init__(
        self, model: Any, hook: Hook, layers: Sequence[LayerShape], store: KVStore, head_ids: Sequence[int] | None,
        compiled_attention: bool,
    ) -> None:  # fmt: skip
        """Takes the model over. ``compiled_attention`` False does without machine code that may have to be built."""
        dtype, self._device = store.keys[0].dtype, store.keys[0].device
        self._model = model
        self._linears = pack_linears(model) if can_pack(dtype, self._device) else 0
        compiled = compiled_attention and can_pack(dtype, self._device)
        kernel: Kernel[PackedPass] = CpuKernel(store, layers, dtype) if compiled else TorchKernel(store, layers)
        self._attention = PagedAttention(kernel)
        hook.install(self._attention)
        dropped = complement(head_ids, int(model.config.get_text_config().vocab_size))
        self._dropped = None if dropped is None else dropped.to(self._device)
        linears = "packed linears" if self._linears else "plain linears"
        self.words = f"{linears}, {'compiled attention' if compiled else 'float64 attention'}"

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """fp32 logits [W, V]; those of tokens that the head is cut from are minus infinity."""
        self._attention.begin(plan)
        output = self._model(
            input_ids=torch.from_numpy(plan.tokens)[None].to(self._device),
            position_ids=torch.from_numpy(plan.positions)[None].to(self._device),
            use_cache=False,
            logits_to_keep=torch.from_numpy(plan.wanted).to(self._device),
        )
        logits: torch.Tensor = output.logits[0].float()
        return logits if self._dropped is None else logits.index_fill(1, self._dropped, NOWHERE)


class CompiledPath:
    """The whole pass as one compiled function."""

    def __init__(
        self, model: Any, layers: Sequence[LayerShape], store: KVStore, positions: int, head_ids: Sequence[int] | None,
        threads: int,
    ) -> None:  # fmt: skip
        """Copies the model's weights; the model may go afterwards."""
        self._forward = CompiledForward(weights.pack(model, layers, positions, head_ids), *store.whole, threads)
        self._ids = None if head_ids is None else torch.tensor(list(head_ids))
        self._size = int(model.config.vocab_size)
        self._full = torch.full((1, self._size), NOWHERE)
        self.words = f"compiled pass, {threads} threads"

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """fp32 logits [W, V]; valid until the next pass."""
        logits = self._forward(plan)
        if self._ids is None:
            return logits
        if len(self._full) < len(logits):
            self._full = torch.full((len(logits), self._size), NOWHERE)
        full = self._full[: len(logits)]
        full[:, self._ids] = logits
        return full

    def close(self) -> None:
        """End its threads."""
        self._forward.close()
