"""Where the time of a forward pass goes, beside the memory floor and the linear layers: ``python -m bench.passes``.

In process and interleaved: the pass as it is served, the same pass through transformers' modules, its linear
layers alone (oneDNN, weights packed, one product per projection), and one reading of the weights. It knows nothing of
sessions or services. ``--json`` prints one JSON object on the last line.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from bench.report import publish, table
from outrider.choice import choose
from outrider.cli.models import chosen_pair
from outrider.inference.invariance import calibrate
from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.linear import PackedLinear
from outrider.inference.model import ModelOptions, ModelRunner, load
from outrider.inference.packed import PackedPass, Segment, pack
from outrider.inference.threads import available_threads
from outrider.sampling import SamplingParams

_CONTEXT = 200
_SHAPES = ((1, 1), (5, 1), (8, 1), (16, 16), (64, 64))
"""(rows, sessions) of the passes."""
_REPEATS = 15
_PAUSE_S = 0.02
_COLUMNS = ("served", "modules", "linears", "floor", "choose")


def _plan(rows: int, sessions: int, multiple: int) -> PackedPass:
    """Rows of sessions that have _CONTEXT tokens each."""
    each = rows // sessions
    blocks = -(-(_CONTEXT + each) // BLOCK_SIZE)
    segments = [Segment([5] * each, _CONTEXT, range(i * blocks, (i + 1) * blocks), each) for i in range(sessions)]
    return pack(segments, BLOCK_SIZE, multiple)


def _linears(model: Any) -> list[tuple[PackedLinear, int]]:
    """Every linear layer packed, and its number of inputs."""
    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    return [(PackedLinear(m.weight.detach(), None), m.in_features) for m in layers]


def _timed(function: Callable[[], object]) -> float:
    """Seconds of a call, after idle workers of whatever ran before have gone to sleep."""
    time.sleep(_PAUSE_S)
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def _run_linears(layers: Sequence[tuple[PackedLinear, int]], rows: int) -> Callable[[], None]:
    inputs = {size: torch.randn(max(rows, 2), size).bfloat16() for _, size in layers}

    def run() -> None:
        for layer, size in layers:
            layer(inputs[size])

    return run


def _read(weights: torch.Tensor, threads: int) -> float:
    """Seconds to read the weights once with every thread."""
    torch.set_num_threads(threads)
    return _timed(lambda: weights.sum())


def _runners(target: str, threads: int) -> tuple[ModelRunner, ModelRunner]:
    made = []
    for mode in ("on", "off"):
        torch.set_num_threads(threads)
        runner = ModelRunner(ModelOptions(target, kv_bytes=1 << 30, compile=mode, threads=threads))
        calibrate(runner)
        made.append(runner)
    return made[0], made[1]


def _choose_all(logits: torch.Tensor) -> list[int]:
    greedy = SamplingParams(temperature=0.0)
    return [choose(row, [], greedy, _CONTEXT) for row in logits]


def _row(
    served: ModelRunner, modules: ModelRunner, layers: Any, weights: torch.Tensor, shape: tuple[int, int], threads: int
) -> list[float]:
    """Median seconds of each column."""
    rows, sessions = shape
    plans = [_plan(rows, sessions, runner.row_multiple) for runner in (served, modules)]
    linears = _run_linears(layers, rows)
    times = []
    for _ in range(_REPEATS + 2):
        torch.set_num_threads(1)
        fast = _timed(lambda: served.forward(plans[0]))
        chosen = _timed(partial(_choose_all, served.forward(plans[0])))
        floor = _read(weights, threads)
        times.append((fast, _timed(lambda: modules.forward(plans[1])), _timed(linears), floor, chosen))
    return [statistics.median(column) for column in zip(*times[2:], strict=True)]


@torch.inference_mode()
def measure() -> dict[str, Any]:
    """Milliseconds per shape and column, and the two ratios that the engine is held to."""
    threads = available_threads()
    target, _ = chosen_pair(None, None, os.environ)
    served, modules = _runners(target, threads)
    plain = load(served.options)
    size = sum(p.numel() * p.element_size() for p in plain.parameters())
    weights, layers = torch.ones(size // 8, dtype=torch.int64), _linears(plain)
    rows = {shape[0]: _row(served, modules, layers, weights, shape, threads) for shape in _SHAPES}
    five = dict(zip(_COLUMNS, rows[5], strict=True))
    return {
        "milliseconds": {
            r: {c: round(1e3 * s, 2) for c, s in zip(_COLUMNS, row, strict=True)} for r, row in rows.items()
        },
        "weights_mb": round(size / 1e6, 1),
        "floor_gb_per_s": round(size / five["floor"] / 1e9, 1),
        "pass5_vs_packed_linears": round(five["served"] / five["linears"], 3),
        "pass5_vs_floor": round(five["served"] / five["floor"], 3),
    }


def main() -> int:
    """Print the table and the result."""
    result = measure()
    if "--json" in sys.argv:
        print(json.dumps(result))
        return 0
    cells = [[rows, *(f"{row[c]:.1f}" for c in _COLUMNS)] for rows, row in result["milliseconds"].items()]
    publish("passes", table(["rows", *(f"{c}, ms" for c in _COLUMNS)], cells), result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
