"""The engine on an accelerator: its kernels against the CPU, the bits of rows and graphs, and the time of passes.

``python -m bench.gpu_check [DEVICE]``, DEVICE cuda or cpu. Models are random, of Llama shapes, so nothing is fetched;
on a card the default target joins in where its files are. The CPU checks the command itself, on a tiny model. It
knows nothing of services.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bench import gpu_findings as findings
from bench.gpu_models import SHAPES, save
from bench.report import publish, table
from outrider.home import TARGET_NAME, models_folder
from outrider.inference.invariance import logits_in_chunks, random_tokens
from outrider.inference.model import ModelOptions, ModelRunner

KERNELS = ("plain", "fast", "tiles")
_EQUAL = 1e-3
"""Greatest difference of fp32 logits near 1 that different orders of sums explain."""
_CLOSE = 0.05
"""Relative difference of bf16 logits that roundings in different places explain."""


def _runner(path: str, dtype: str, device: str, kernels: str, kv_bytes: int = 1 << 26) -> ModelRunner:
    """Plain kernels without the CPU's compiled pass: they are the reference."""
    compile = "off" if kernels == "plain" else "auto"
    return ModelRunner(ModelOptions(path, dtype, device, kv_bytes, compile=compile, kernels=kernels))


def _fp32_differences(path: str, device: str) -> dict[str, float]:
    """Greatest difference of each kernels' fp32 logits from the CPU's plain ones, over prompt, blocks and steps."""
    reference = _runner(path, "float32", "cpu", "plain")
    tokens = random_tokens(reference, 60)
    wanted = logits_in_chunks(reference, tokens, len(tokens))
    found = {}
    for kernels in KERNELS:
        runner = _runner(path, "float32", device, kernels)
        ours = (logits_in_chunks(runner, tokens, chunk).cpu() for chunk in (60, 5, 1))
        found[kernels] = max(float((logits - wanted).abs().max()) for logits in ours)
    return found


def _bits(name: str, path: str, device: str, kv_bytes: int) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Per kernels a table row and its numbers: distance from the plain ones, invariance, graphs, flips of a text."""
    text: list[int] = []
    reference: torch.Tensor | None = None
    for kernels in KERNELS:
        runner = _runner(path, "bfloat16", device, kernels, kv_bytes)
        recorded, same = findings.recorded_bits(runner)
        invariant = findings.stays_invariant(runner, runner.logit_width)
        text = text or findings.greedy_text(runner, [1, 2, 3, 4])
        logits = logits_in_chunks(runner, text, 5)
        reference = logits if reference is None else reference
        distance = float((logits - reference).norm() / reference.norm())
        flips = findings.flips(runner, text)
        numbers = {"distance": distance, "invariant": invariant, "recorded": recorded, "same": same}
        numbers |= {"flipped": flips.tokens, "moved": flips.bits, "positions": flips.positions}
        changed, moved = f"{flips.tokens} of {flips.positions}", f"{flips.bits} of {flips.positions}"
        yield [name, kernels, f"{distance:.1e}", invariant, f"{same} of {recorded}", changed, moved], numbers


def _times(name: str, path: str, device: str, kv_bytes: int) -> Iterator[list[Any]]:
    """A table row per pass: milliseconds of each kernels, and times the floor (reading the bytes of the weights)."""
    size = sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))
    weights = torch.ones(size // 8, dtype=torch.int64, device=device)
    floor = findings.seconds(torch.device(device), weights.sum)
    del weights
    columns = [dict(findings.pass_times(_runner(path, "bfloat16", device, kernels, kv_bytes))) for kernels in KERNELS]
    for words in columns[0]:
        yield [name, words, *(f"{1e3 * column[words]:.2f} ({column[words] / floor:.1f})" for column in columns)]


def _verdicts(differences: dict[str, float], bits: dict[str, dict[str, dict[str, Any]]]) -> dict[str, bool]:
    """What must hold."""
    every = [(kernels, numbers) for model in bits.values() for kernels, numbers in model.items()]
    return {
        "fp32 logits are those of the CPU": max(differences.values()) < _EQUAL,
        "bf16 logits are near those of the plain kernels": all(n["distance"] < _CLOSE for _, n in every),
        "tiles are row invariant": all(n["invariant"] and not n["moved"] for k, n in every if k == "tiles"),
        "replayed passes have the bits of eager ones": all(n["same"] == n["recorded"] for _, n in every),
        "passes of fast and tiles can be recorded": all(n["recorded"] > 0 for k, n in every if k != "plain"),
    }


def main() -> int:
    """Run the check. Exits with 1 where there is no such device or something does not hold."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    large = device.startswith("cuda")
    if large and not torch.cuda.is_available():
        print("no CUDA device here")
        return 1
    bit_rows: list[list[Any]] = []
    time_rows: list[list[Any]] = []
    bits: dict[str, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        folder = Path(scratch)
        differences = _fp32_differences(save("tiny", folder, torch.float32, "cpu"), device)
        paths = {name: save(name, folder, torch.bfloat16, device) for name in (SHAPES if large else ("tiny",))}
        if large and (target := models_folder(os.environ) / TARGET_NAME).is_dir():
            paths["default target"] = str(target)
        for name, path in paths.items():
            found = list(_bits(name, path, device, 1 << (31 if large else 28)))
            bit_rows += [row for row, _ in found]
            bits[name] = dict(zip(KERNELS, (numbers for _, numbers in found), strict=True))
            time_rows += _times(name, path, device, 1 << (31 if large else 28))
    verdicts = _verdicts(differences, bits)
    _report(device, differences, bit_rows, time_rows, verdicts)
    return 0 if all(verdicts.values()) else 1


def _report(
    device: str, differences: dict[str, float], bit_rows: list[list[Any]], time_rows: list[list[Any]],
    verdicts: dict[str, bool],
) -> None:  # fmt: skip
    card = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    header = ["model", "kernels", "from plain", "row invariant", "replays equal", "tokens flipped", "bits moved"]
    timed = ["model", "sessions x rows", *(f"{kernels}, ms (times the floor)" for kernels in KERNELS)]
    lines = [f"{'holds' if holds else 'FAILS'}: {words}" for words, holds in verdicts.items()]
    text = "\n\n".join([table(header, bit_rows), table(timed, time_rows), "\n".join(lines)])
    publish("gpu_check", text, {"device": card, "fp32_differences": differences, "verdicts": verdicts})


if __name__ == "__main__":
    sys.exit(main())
