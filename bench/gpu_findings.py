"""What is asked of a runner on a device: its logits, whether rows and graphs keep their bits, how long passes take."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from outrider.inference.invariance import calibrate, logits_in_chunks
from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.model import ModelRunner
from outrider.inference.packed import PackedPass, Segment, pack

LONG = 600
"""Tokens of the check over a long context: more than one tile of keys."""
_LONG_CHUNKS = (256, 97)
_TEXT = 200
_REPEATS = 10
PASSES = ((1, 1, 200), (1, 1, 2000), (1, 5, 200), (4, 5, 200), (16, 1, 200), (16, 4, 200), (64, 1, 200), (1, 256, 0))
"""Sessions, rows of each, and tokens before them."""


@dataclass(frozen=True, slots=True)
class Flips:
    """Of so many positions of a text: those whose greedy token changes with the rows of a pass, and whose bits do."""

    positions: int
    tokens: int
    bits: int


def plan_of(runner: ModelRunner, sessions: int, rows: int, context: int) -> PackedPass:
    """A pass of like sessions, every row wanted; a prompt's last row only."""
    count = -(-(context + rows) // BLOCK_SIZE)
    segments = [
        Segment([5] * rows, context, range(count * i, count * (i + 1)), rows if context else 1) for i in range(sessions)
    ]
    return pack(segments, BLOCK_SIZE, runner.row_multiple)


def stays_invariant(runner: ModelRunner, vocabulary: int) -> bool:
    """The start-up check, and chunks of a context that is longer than a tile of keys."""
    if not calibrate(runner):
        return False
    tokens = [(7 * i * i + 3) % vocabulary for i in range(min(LONG, runner.max_positions))]
    whole = logits_in_chunks(runner, tokens, len(tokens))
    return all(torch.equal(logits_in_chunks(runner, tokens, chunk), whole) for chunk in _LONG_CHUNKS)


def _plans(runner: ModelRunner) -> Iterator[tuple[str, PackedPass]]:
    """Words for each of PASSES that the cache and the model's positions have room for, and the pass."""
    for sessions, rows, context in PASSES:
        end = context + rows
        if sessions * -(-end // BLOCK_SIZE) <= runner.num_blocks and end <= runner.max_positions:
            yield f"{sessions} x {rows} after {context}", plan_of(runner, sessions, rows, context)


def recorded_bits(runner: ModelRunner) -> tuple[int, int]:
    """Passes that were recorded, and those of them whose replay has the bits of the eager pass."""
    recorded = same = 0
    for _, plan in _plans(runner):
        eager, before = runner.forward(plan).clone(), runner.recorded
        runner.record(plan)
        if runner.recorded > before:
            recorded += 1
            same += torch.equal(runner.forward(plan), eager)
    return recorded, same


def greedy_text(runner: ModelRunner, start: Sequence[int], count: int = _TEXT) -> list[int]:
    """Tokens of a greedy answer after some given ones, a step at a time."""
    tokens, blocks, done = list(start), range(-(-(len(start) + count) // BLOCK_SIZE)), 0
    while len(tokens) < len(start) + count:
        plan = pack([Segment(tokens[done:], done, blocks, 1)], BLOCK_SIZE, runner.row_multiple)
        done = len(tokens)
        tokens.append(int(runner.forward(plan)[0].argmax()))
    return tokens


def flips(runner: ModelRunner, tokens: Sequence[int]) -> Flips:
    """Steps of one row against blocks of 5 and the whole text as a prompt."""
    steps, *others = (logits_in_chunks(runner, tokens, chunk) for chunk in (1, 5, len(tokens)))
    changed = torch.stack([other.argmax(1) != steps.argmax(1) for other in others]).any(0)
    moved = torch.stack([(other != steps).any(1) for other in others]).any(0)
    return Flips(len(tokens), int(changed.sum()), int(moved.sum()))


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(device: torch.device, function: Callable[[], object]) -> float:
    """Median seconds of a call, the device's work included."""
    times = []
    for _ in range(_REPEATS + 2):
        _synchronize(device)
        began = time.perf_counter()
        function()
        _synchronize(device)
        times.append(time.perf_counter() - began)
    return statistics.median(times[2:])


def pass_times(runner: ModelRunner) -> Iterator[tuple[str, float]]:
    """Words and median seconds of each pass that there is room for; graphs are recorded before."""
    for words, plan in _plans(runner):
        runner.record(plan)
        yield words, seconds(runner.device, partial(runner.forward, plan))
