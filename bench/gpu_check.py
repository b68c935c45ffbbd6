"""The engine on an accelerator: equal to the CPU in fp32, and the time of passes beside the bandwidth floor.

``python -m bench.gpu_check [DEVICE]``. Models are random, of Llama shapes, so nothing is downloaded; the default pair
is timed too where its files are. It knows nothing of services.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bench.report import publish, table
from outrider.cli.models import chosen_pair
from outrider.inference.invariance import calibrate, logits_in_chunks, random_tokens
from outrider.inference.kv_store import BLOCK_SIZE
from outrider.inference.model import ModelOptions, ModelRunner
from outrider.inference.packed import Segment, pack

_CONTEXT, _REPEATS = 200, 10
_ROWS = (1, 2, 4, 8, 16, 32, 64)
_SHAPES = {
    "tiny": (256, 4, 4, 2, 512, 1000),
    "1B": (2048, 16, 32, 8, 8192, 128256),
    "8B": (4096, 32, 32, 8, 14336, 128256),
}
"""Hidden size, layers, heads, key/value heads, inner size, vocabulary."""


def _save(shape: str, folder: Path, dtype: torch.dtype) -> str:
    """A random model of a shape as a folder."""
    hidden, layers, heads, kv_heads, inner, vocabulary = _SHAPES[shape]
    config = LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        vocab_size=vocabulary,
        max_position_embeddings=4096,
        tie_word_embeddings=shape != "8B",
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM._from_config(config, dtype=dtype)
    model.save_pretrained(folder / shape)
    return str(folder / shape)


def _greatest_difference(folder: Path, device: str) -> float:
    """Greatest difference of fp32 logits between the device and the CPU, in chunks of 5 rows."""
    path = _save("tiny", folder, torch.float32)
    runners = [ModelRunner(ModelOptions(path, "float32", name, 1 << 26)) for name in ("cpu", device)]
    tokens = random_tokens(runners[0], 60)
    there, here = (logits_in_chunks(runner, tokens, 5).cpu() for runner in runners)
    return float((there - here).abs().max())


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _seconds(device: torch.device, function: Any) -> float:
    """Median seconds of a call, the device's work included."""
    times = []
    for _ in range(_REPEATS + 2):
        _synchronize(device)
        began = time.perf_counter()
        function()
        _synchronize(device)
        times.append(time.perf_counter() - began)
    return statistics.median(times[2:])


def _pass_rows(name: str, path: str, device: str) -> Iterator[list[Any]]:
    """Table rows of one model: rows, milliseconds, and times the floor (reading as many bytes as the weights have)."""
    runner = ModelRunner(ModelOptions(path, "bfloat16", device, 1 << 29))
    invariant = calibrate(runner)
    size = sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))
    weights = torch.ones(size // 8, dtype=torch.int64, device=device)
    floor = _seconds(runner.device, weights.sum)
    del weights
    for rows in _ROWS:
        blocks = range(-(-(_CONTEXT + rows) // BLOCK_SIZE))
        plan = pack([Segment([5] * rows, _CONTEXT, blocks, rows)], BLOCK_SIZE, runner.row_multiple)
        seconds = _seconds(runner.device, lambda plan=plan: runner.forward(plan))
        yield [name, rows, f"{1e3 * seconds:.2f}", f"{seconds / floor:.2f}", runner.row_multiple, invariant]


def main() -> int:
    """Run the check. Exits with 1 where there is no such device or its logits are not those of the CPU."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    if device.startswith("cuda") and not torch.cuda.is_available():
        print("no CUDA device here")
        return 1
    cells: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        difference = _greatest_difference(Path(scratch), device)
        names = ("tiny", "1B", "8B") if device.startswith("cuda") else ("tiny",)
        for name in names:
            cells += _pass_rows(name, _save(name, Path(scratch), torch.bfloat16), device)
    target, _ = chosen_pair(None, None, os.environ)
    if Path(target).is_dir():
        cells += _pass_rows("default target", target, device)
    card = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    text = table(["model", "rows", "pass, ms", "times the floor", "row multiple", "row invariant"], cells)
    publish("gpu_check", text, {"device": card, "greatest_difference": difference, "equal": difference < 1e-3})
    return 0 if difference < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
