"""The start-up check of design I1: does a position get the same bits however many rows share its pass?

It runs the path that is really built. The check is also the calibration: rows are padded to the smallest
multiple for which it holds (1 in the compiled pass, 2 with packed linears on a CPU). It does not know why a
path differs.
"""

from collections.abc import Sequence

import numpy as np
import torch

from outrider.inference.model import ModelRunner
from outrider.inference.packed import Segment, pack

MULTIPLES = (1, 2, 4, 8, 16, 32)
_ROWS = 40
_CHUNKS = (1, 2, 5, 8, 13, 32)
_PASSES = 2
_BESIDES = (0, 7)
_TILED_ROWS, _TILED_BESIDES = 96, (0, 7, 50)  # more than a tile, and rows at many places of it and across its end


def random_tokens(runner: ModelRunner, count: int) -> list[int]:
    """Seeded tokens, as many as the runner's context and cache allow up to ``count``."""
    rows = min(count, runner.max_positions, runner.block_size * (runner.num_blocks // 3))
    return [int(token) for token in np.random.default_rng(0).integers(0, runner.logit_width, rows)]


def logits_in_chunks(
    runner: ModelRunner, tokens: Sequence[int], chunk: int, beside: int = 0, passes: int | None = None
) -> torch.Tensor:
    """Logits [n, V] of n tokens run ``chunk`` at a time on the first blocks, beside rows of another session.

    ``passes`` stops after so many chunks; n is then smaller.
    """
    needed = -(-len(tokens) // runner.block_size)
    blocks, other = list(range(needed)), list(range(needed, 2 * needed + 1))
    parts = []
    for start in range(0, len(tokens), chunk)[:passes]:
        part = tokens[start : start + chunk]
        segments = [Segment(part, start, blocks, len(part))]
        if beside:
            segments.insert(0, Segment(list(tokens[:beside]), 0, other, 1))
        logits = runner.forward(pack(segments, runner.block_size, runner.row_multiple))
        skip = 1 if beside else 0
        parts.append(logits[skip : skip + len(part)].clone())  # they are valid until the next pass
    return torch.cat(parts)


def is_row_invariant(runner: ModelRunner) -> bool:
    """Whether logits are bit-equal for a few numbers of rows, alone and beside another session."""
    tiled = runner.options.kernels == "tiles"
    tokens = random_tokens(runner, _TILED_ROWS if tiled else _ROWS)
    reference = logits_in_chunks(runner, tokens, len(tokens))
    for chunk in _CHUNKS:
        for beside in _TILED_BESIDES if tiled else _BESIDES:
            logits = logits_in_chunks(runner, tokens, chunk, min(beside, len(tokens)), _PASSES)
            if not torch.equal(logits, reference[: len(logits)]):
                return False
    return True


def calibrate(runner: ModelRunner) -> bool:
    """Set the runner's row multiple to the smallest that is invariant. False when none is.

    Never claimed of the fast kernels: nothing in them holds it, so a check that passed would be luck.
    """
    if runner.options.kernels == "fast":
        return False
    for multiple in MULTIPLES:
        runner.row_multiple = multiple
        if is_row_invariant(runner):
            return True
    runner.row_multiple = MULTIPLES[0]
    return False
