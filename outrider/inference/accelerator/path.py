"""A pass on a device by transformers' modules, with one of this package's kernels as their attention.

``fast`` runs a pass as it is. ``tiles`` runs it as tiles of one fixed shape, norms, products, attention and head alike,
so that a row's bits do not depend on the rows beside it (design I1). It implements ``PassPath``.
"""

from collections.abc import Sequence
from typing import Any

import torch

from outrider.inference.accelerator.capture import Capture
from outrider.inference.accelerator.cuts import TILE_ROWS, GroupedLayouts, Layouts, TiledLayouts
from outrider.inference.accelerator.device_pass import DevicePass
from outrider.inference.accelerator.fast import FastKernel
from outrider.inference.accelerator.frames import Frames
from outrider.inference.accelerator.layout import Layout
from outrider.inference.accelerator.row_store import RowStore
from outrider.inference.accelerator.tiles import TileKernel
from outrider.inference.attention import Kernel, PagedAttention
from outrider.inference.hook import NOWHERE, Hook, complement
from outrider.inference.kv_store import LayerShape
from outrider.inference.packed import PackedPass


class DevicePath:
    """Passes over a ``RowStore``, with graphs when there is a ``capture``."""

    def __init__(
        self, model: Any, hook: Hook, layers: Sequence[LayerShape], store: RowStore, head_ids: Sequence[int] | None,
        kernels: str, capture: Capture | None,
    ) -> None:  # fmt: skip
        """Takes the model over. ``kernels`` is fast or tiles."""
        self._model, self._store = model, store
        self._device = store.key_rows[0].device
        tiled = kernels == "tiles"
        kernel: Kernel[DevicePass] = (TileKernel if tiled else FastKernel)(store, layers)
        self._layouts: Layouts = (
            TiledLayouts(store.spare) if tiled else GroupedLayouts(store.spare, capture is not None)
        )
        self._attention = PagedAttention(kernel)
        hook.install(self._attention)
        self._frames = Frames(self._device, self._compute, capture)
        dropped = complement(head_ids, int(model.config.get_text_config().vocab_size))
        self._dropped = None if dropped is None else dropped.to(self._device)
        how = f"tiles of {TILE_ROWS} rows, attention in fixed tiles" if tiled else "plain linears, torch's attention"
        self.words = f"{how}, {capture.words}" if capture else how

    def _compute(self, plan: DevicePass) -> torch.Tensor:
        """fp32 logits [W, V] of a layout. It reads no numbers back, so that it can be recorded."""
        self._store.clear(plan.fresh)
        self._attention.begin(plan)
        output = self._model(
            input_ids=plan.tokens[None], position_ids=plan.positions[None], use_cache=False, logits_to_keep=plan.wanted
        )
        logits: torch.Tensor = output.logits[0].float()
        return logits

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """fp32 logits [W, V]; those of tokens that the head is cut from are minus infinity."""
        layouts = self._layouts(plan)
        logits = self._picked(layouts[0]) if len(layouts) == 1 else self._collected(layouts, len(plan.wanted))
        return logits if self._dropped is None else logits.index_fill_(1, self._dropped, NOWHERE)

    def _picked(self, layout: Layout) -> torch.Tensor:
        """Logits [P, V] of the wanted rows of a layout, as a copy."""
        return self._frames(layout).index_select(0, torch.from_numpy(layout.pick).to(self._device))

    def _collected(self, layouts: Sequence[Layout], wanted: int) -> torch.Tensor:
        """Logits of the wanted rows of layouts that are computed one after the other."""
        collected: torch.Tensor | None = None
        for layout in layouts:
            logits = self._picked(layout)
            if collected is None:
                collected = logits.new_empty(wanted, logits.shape[1])
            collected[torch.from_numpy(layout.answers).to(self._device)] = logits
        assert collected is not None
        return collected

    @property
    def recorded(self) -> int:
        """Shapes of passes that replay."""
        return self._frames.recorded

    def record(self, plan: PackedPass) -> None:
        """Record passes of this one's shape now. Raises RuntimeError when they cannot be recorded."""
        for layout in self._layouts(plan):
            self._frames.record(layout)
