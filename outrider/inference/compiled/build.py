"""Builds the machine code of the kernels, or finds it built: ``python -m outrider.inference.compiled.build``.

The types of a pass do not depend on the model, so a pass of a tiny made-up one builds what every model uses. A lock
file lets one process build at a time. It knows no model.
"""

import fcntl
import logging
import time

import numpy as np
import torch

from outrider.inference import attention_cpu
from outrider.inference.compiled import artefacts
from outrider.inference.compiled.forward import CompiledForward
from outrider.inference.compiled.tile import PANELS
from outrider.inference.compiled.vectors import LANES
from outrider.inference.compiled.weights import PackedModel
from outrider.inference.packed import Segment, pack

log = logging.getLogger(__name__)


def _tiny() -> PackedModel:
    """A model of one layer, all zeros, with the array types of every model."""
    size = LANES * PANELS
    panels, bits = np.zeros((PANELS, size // 2, LANES), np.int32), np.zeros((1, size), np.uint16)
    mixed = np.zeros((1, 3 * PANELS, size // 2, LANES), np.int32)
    layer, flat = panels[None].copy(), np.zeros(size, np.uint16)
    arrays = (
        bits, mixed, np.zeros((1, 3 * size), np.float32), layer, layer, layer, bits, bits, flat, panels, bits, bits,
        np.zeros(1 << 16, np.uint16),
    )  # fmt: skip
    return PackedModel(arrays, size, LANES, 1, 1, size, 1, size, 1.0, 1e-5, 0)


def _run_tiny_pass() -> None:
    size, block = LANES * PANELS, LANES * PANELS
    keys = torch.zeros(1, 1, 1, size, block, dtype=torch.bfloat16)
    forward = CompiledForward(_tiny(), keys, keys.clone(), 1)
    forward(pack([Segment([0], 0, [0], 1)], block, 1))
    forward.close()


def _run_tiny_attention() -> None:
    """The kernel of the eager path, for both of its types."""
    plan = pack([Segment([0], 0, [0], 1)], LANES, 1)
    for kind, shift in ((np.uint16, 16), (np.uint32, 0)):
        rows, keys, values = (
            np.zeros((1, 1, 8), kind),
            np.zeros((1, 1, 8, LANES), kind),
            np.zeros((1, 1, LANES, 8), kind),
        )
        attention_cpu.write_rows(rows, rows, keys, values, plan.blocks, plan.offsets)
        scale, places = np.float32(1), np.uint32(shift)
        attention_cpu.attend(rows, keys, values, rows.copy(), plan.segments, plan.tables, scale, 0, places)


def build() -> None:
    """Return when the machine code is there; builds it if nobody has (some 20 seconds)."""
    with (artefacts.FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if artefacts.are_ready():
            return
        began = time.monotonic()
        _run_tiny_pass()
        _run_tiny_attention()
        artefacts.note_ready()
        log.info("built the kernels in %.1f s", time.monotonic() - began)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    build()
