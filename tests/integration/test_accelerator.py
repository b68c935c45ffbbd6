"""The device paths on whole models, on the CPU: equal to transformers', and invariant to the bit where they say so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.errors import IncompatibleReplica
from outrider.inference import replica as replicas
from outrider.inference.accelerator import start
from outrider.inference.accelerator.start import kernels_for
from outrider.inference.invariance import calibrate, logits_in_chunks
from outrider.inference.model import ModelOptions, ModelRunner, load
from outrider.inference.packed import Segment, pack
from outrider.inference.replica import load_replica
from outrider.inference.threads import available_threads
from outrider.replica_config import ReplicaConfig
from tests.integration.prompts import prompt_of

ROWS = 90
KV_BYTES = 8 << 20
CLOSE = {"float32": 1e-5, "bfloat16": 3e-2, "float16": 4e-3}
"""Relative difference of logits in norm: two right implementations of these models, whose weights are drawn wide."""


@pytest.fixture(autouse=True)
def real_threads() -> Iterator[None]:
    """As many threads as a replica takes by itself: the number may change how a product is cut."""
    before = torch.get_num_threads()
    torch.set_num_threads(available_threads())
    yield
    torch.set_num_threads(before)


def runner_of(folder: Path, kernels: str, dtype: str = "float32", compile: str = "auto", **more: Any) -> ModelRunner:
    return ModelRunner(ModelOptions(str(folder), dtype, kv_bytes=KV_BYTES, compile=compile, kernels=kernels, **more))


@pytest.mark.parametrize("compile", ["off", "auto"])
@pytest.mark.parametrize("kernels", ["fast", "tiles"])
@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gpt2"])
def test_logits_are_those_of_transformers(
    models: Path, architecture: str, dtype: str, kernels: str, compile: str
) -> None:
    """As a prompt, in blocks, in steps; windows, heads of their own, learned positions."""
    runner = runner_of(models / architecture, kernels, dtype, compile)
    tokens = prompt_of(ROWS)
    with torch.inference_mode():
        theirs = load(runner.options)(torch.tensor([tokens])).logits[0].float()
    for chunk in (ROWS, 33, 5, 1):
        ours = logits_in_chunks(runner, tokens, chunk)
        assert float((ours - theirs).norm() / theirs.norm()) < CLOSE[dtype], f"chunks of {chunk}"


@pytest.mark.parametrize("dtype", list(CLOSE))
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gpt2"])
def test_tiles_are_invariant_to_the_bit_with_plain_linears(models: Path, architecture: str, dtype: str) -> None:
    """Design I1 by shapes alone: every chunking, alone and beside others, before and after shapes are recorded."""
    runner = runner_of(models / architecture, "tiles", dtype)
    assert calibrate(runner)
    assert runner.row_multiple == 1
    tokens = prompt_of(ROWS)
    whole = logits_in_chunks(runner, tokens, ROWS)
    for chunk, beside in ((1, 0), (2, 7), (3, 1), (5, 40), (9, 0), (33, 1), (64, 40), (65, 70)):
        assert torch.equal(logits_in_chunks(runner, tokens, chunk, beside), whole), f"{chunk} beside {beside} rows"
    assert runner.recorded > 0


def test_fast_kernels_claim_nothing(models: Path) -> None:
    assert not calibrate(runner_of(models / "llama", "fast"))


@pytest.mark.parametrize("kernels", ["fast", "tiles"])
def test_many_ragged_sessions_in_one_pass(models: Path, kernels: str) -> None:
    """Each as alone; to the bit where rows are invariant."""
    runner = runner_of(models / "llama", kernels)
    prompts = [prompt_of(length, length) for length in (1, 2, 3, 7, 16, 33, 40, 5)]
    solo = [logits_in_chunks(runner, prompt, len(prompt)) for prompt in prompts]
    segments = [Segment(prompt, 0, [runner.num_blocks - 1 - i, i], len(prompt)) for i, prompt in enumerate(prompts)]
    logits = runner.forward(pack(segments, runner.block_size, 1))
    offset = 0
    for prompt, alone in zip(prompts, solo, strict=True):
        ours = logits[offset : offset + len(prompt)]
        assert torch.equal(ours, alone) if kernels == "tiles" else torch.allclose(ours, alone, atol=1e-3)
        offset += len(prompt)


@pytest.mark.parametrize("kernels", ["fast", "tiles"])
def test_a_recorded_pass_has_the_bits_of_an_eager_one(models: Path, kernels: str) -> None:
    runner = runner_of(models / "llama", kernels)
    plan = pack([Segment([5] * 3, 0, [0], 3), Segment([7] * 2, 0, [1], 1)], runner.block_size, 1)
    eager = runner.forward(plan).clone()
    runner.record(plan)
    assert runner.recorded == 1
    assert torch.equal(runner.forward(plan), eager)


@pytest.mark.parametrize("kernels", ["fast", "tiles"])
def test_a_cut_head_leaves_the_logits_of_its_tokens(models: Path, kernels: str) -> None:
    ids = (0, 3, 17, 318)
    tokens = prompt_of(40)
    whole = logits_in_chunks(runner_of(models / "llama", kernels), tokens, 40)
    cut = logits_in_chunks(runner_of(models / "llama", kernels, head_ids=ids), tokens, 40)
    assert torch.equal(cut[:, list(ids)], whole[:, list(ids)])
    assert int(torch.isfinite(cut).sum()) == len(ids) * len(tokens)


def test_the_path_says_what_it_is(models: Path) -> None:
    """It is compared between replicas, so it does not change while shapes are recorded."""
    words = {
        (kernels, compile): runner_of(models / "llama", kernels, compile=compile).path
        for kernels in ("fast", "tiles")
        for compile in ("off", "on")
    }
    assert words["fast", "off"] == "plain linears, torch's attention, rows in multiples of 1"
    assert words["tiles", "on"].startswith("tiles of 64 rows, attention in fixed tiles, frames without graphs")
    assert len(set(words.values())) == 4


def test_what_computes_something_else_is_refused(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No card has seen these kernels, so a replica looks at their logits before it serves."""
    monkeypatch.setattr(start, "difference", lambda path, wanted: 0.5)
    with pytest.raises(IncompatibleReplica, match=r"logits of plain linears, torch's attention.* differ .* by 0\.50"):
        runner_of(models / "llama", "fast")


def test_a_graph_that_must_be_had_and_cannot_is_refused(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        words = "broken graphs"

        def __call__(self, function: object) -> None:
            raise RuntimeError("not permitted")

    monkeypatch.setattr(start, "capture_for", lambda device: Broken())
    with pytest.raises(IncompatibleReplica, match=r"graphs were asked for, .*: not permitted"):
        runner_of(models / "llama", "tiles", compile="on")


def test_a_wish_chooses_kernels_where_the_plain_ones_are_not_invariant_already() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    wishes = ("on", "auto", "off")
    assert [kernels_for(wish, torch.bfloat16, cpu) for wish in wishes] == ["plain"] * 3
    for dtype, device in ((torch.float16, cpu), (torch.bfloat16, cuda), (torch.float32, cuda)):
        assert [kernels_for(wish, dtype, device) for wish in wishes] == ["tiles", "plain", "fast"]


def half_precision(folder: Path, wish: str) -> ReplicaConfig:
    """On a CPU, float16 is where the wish for invariant rows chooses between kernels, as on a card."""
    return ReplicaConfig(str(folder), dtype="float16", kv_bytes=KV_BYTES, threads=1, row_invariant=wish)


@pytest.mark.parametrize(("wish", "words", "invariant"), [("on", "tiles of 64", True), ("off", "torch's", False)])
async def test_a_replica_serves_by_the_kernels_of_its_wish(
    models: Path, wish: str, words: str, invariant: bool
) -> None:
    replica = await load_replica(half_precision(models / "llama", wish), "span")
    try:
        assert words in replica.facts.numerics.path
        assert replica.facts.row_invariant is invariant
    finally:
        await replica.close()


async def test_a_replica_whose_rows_must_be_invariant_and_are_not_does_not_start(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "calibrate", lambda runner: False)
    with pytest.raises(IncompatibleReplica, match="OUTRIDER_ROW_INVARIANT=on: the start-up check found other bits"):
        await load_replica(half_precision(models / "llama", "on"), "span")
