"""Which kernels serve a wish, and a path of them that has been checked beside the model. It knows no configuration."""

from collections.abc import Sequence
from typing import Any

import torch

from outrider.errors import IncompatibleReplica
from outrider.inference.accelerator.capture import capture_for
from outrider.inference.accelerator.path import DevicePath
from outrider.inference.accelerator.row_store import RowStore
from outrider.inference.check import SANE, difference, expected
from outrider.inference.hook import Hook
from outrider.inference.kv_store import BLOCK_SIZE, LayerShape
from outrider.inference.linear import can_pack
from outrider.inference.packed import Segment, pack


def kernels_for(row_invariant: str, dtype: torch.dtype, device: torch.device) -> str:
    """The kernels that serve a wish for invariant rows (on, auto or off): plain, tiles or fast.

    Where linears are packed the plain ones are invariant and the fastest. Elsewhere ``auto`` stays with the plain ones
    until the others have been seen to work on a card.
    """
    if can_pack(dtype, device):
        return "plain"
    return {"on": "tiles", "auto": "plain", "off": "fast"}[row_invariant]


def start(
    model: Any, hook: Hook, layers: Sequence[LayerShape], store: RowStore, head_ids: Sequence[int] | None, kernels: str,
    compile: str,
) -> DevicePath:  # fmt: skip
    """A path of the kernels fast or tiles, with graphs unless ``compile`` is off; on tries one at once.

    Raises IncompatibleReplica when its logits are not those of the model, or when no graph can be had that must be.
    """
    device = store.key_rows[0].device
    wanted = expected(model, int(model.config.get_text_config().vocab_size), device)
    path = DevicePath(model, hook, layers, store, head_ids, kernels, None if compile == "off" else capture_for(device))
    found = difference(path, wanted)
    if not found < SANE:
        raise IncompatibleReplica(f"the logits of {path.words} differ from the model's by {found:.2f}")
    if compile == "on":
        _record_one(path)
    return path


def _record_one(path: DevicePath) -> None:
    try:
        path.record(pack([Segment([0], 0, [0], 1)], BLOCK_SIZE, 1))
    except RuntimeError as error:
        raise IncompatibleReplica(f"graphs were asked for, and a pass cannot be recorded: {error}") from error
