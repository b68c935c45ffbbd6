"""Target-only through the whole system against transformers' ``generate``: same model, dtype and threads.

Interleaved request by request, medians, fixed lengths. Also prints the peak memory of each process.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from bench.processes import peak_memory_mib
from bench.report import publish, table
from bench.systems.outrider import AUTO, OFF, Speculation, client_of
from outrider.cli.demo import PROMPTS
from outrider.cli.models import chosen_pair
from outrider.cli.service import Service
from outrider.cli.stack import StackOptions, running
from outrider.cli.up import check_pair, wait_all
from outrider.client import Ask, Client
from outrider.inference.threads import available_threads
from outrider.tokenizer import Tokenizer

_TOKENS = 64
_REPEATS = 3


def _transformers_run(model: Any, ids: Sequence[int]) -> float:
    began = time.perf_counter()
    with torch.inference_mode():
        model.generate(
            torch.tensor([list(ids)]), max_new_tokens=_TOKENS, min_new_tokens=_TOKENS, do_sample=False, pad_token_id=0
        )
    return time.perf_counter() - began


async def _outrider_run(client: Client, ids: Sequence[int], speculation: Speculation) -> float:
    ask = Ask(token_ids=ids, max_new_tokens=_TOKENS, ignore_eos=True, draft_tokens=speculation)
    began = time.perf_counter()
    await client.answer(ask)
    return time.perf_counter() - began


async def _measure(address: str, model: Any, tokenizer: Tokenizer) -> list[tuple[str, float, float, float]]:
    """Median seconds per prompt: transformers, Outrider target-only, Outrider with its default speculation."""
    rows = []
    async with client_of(address) as client:
        for title, text in PROMPTS:
            ids = tokenizer.render_chat([{"role": "user", "content": text}])
            times: list[tuple[float, float, float]] = []
            for _ in range(_REPEATS + 1):
                theirs = await asyncio.to_thread(_transformers_run, model, ids)
                alone, drafted = await _outrider_run(client, ids, OFF), await _outrider_run(client, ids, AUTO)
                times.append((theirs, alone, drafted))
            medians = [statistics.median(column) for column in zip(*times[1:], strict=True)]
            rows.append((title, *medians))
    return rows


def _memory_rows(stack: Sequence[Service]) -> list[list[str]]:
    return [[s.name, f"{peak_memory_mib(s.process.pid)} MiB"] for s in stack if s.process is not None]


async def main() -> int:
    """Run the benchmark; its exit code is 0 whatever the figures."""
    target, draft = chosen_pair(None, None, os.environ)
    torch.set_num_threads(available_threads())
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16).eval()
    with tempfile.TemporaryDirectory() as logs:
        async with running(StackOptions(target, draft, Path(logs), port=0)) as stack:
            await wait_all(stack)
            await check_pair(stack[-1].address, with_draft=True)
            rows = await _measure(stack[-1].address, model, Tokenizer.load(target))
            memory = _memory_rows(stack)
    cells = [
        [title, *(f"{_TOKENS / s:.1f} tok/s" for s in (hf, off, auto)), f"{hf / off:.2f}x", f"{off / auto:.2f}x"]
        for title, hf, off, auto in rows
    ]
    header = [
        "prompt",
        "transformers tok/s",
        "target-only tok/s",
        "AUTO tok/s",
        "target-only / transformers",
        "AUTO / alone",
    ]
    text = table(header, cells) + "\n\n" + table(["process", "peak memory"], memory)
    theirs, alone, drafted = (sum(seconds) for seconds in zip(*(row[1:] for row in rows), strict=True))
    result = {
        "target_only_vs_transformers": round(theirs / alone, 3),
        "auto_vs_target_only": round(alone / drafted, 3),
        "peak_memory_mib": {name: int(size.split()[0]) for name, size in memory},
    }
    publish("target_only", text, result)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
