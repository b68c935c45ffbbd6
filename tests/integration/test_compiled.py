"""The compiled pass: row invariant, close to transformers, and taken over between answers without a trace in them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from outrider.errors import IncompatibleReplica
from outrider.inference.compiled import artefacts
from outrider.inference.compiled.build import build
from outrider.inference.hook import Hook
from outrider.inference.invariance import calibrate, is_row_invariant, logits_in_chunks
from outrider.inference.model import ModelOptions, ModelRunner, load
from outrider.inference.paths import EagerPath
from outrider.replica_config import ReplicaConfig
from outrider.v1 import target_pb2
from outrider.v1.target_pb2_grpc import TargetServiceStub
from tests.integration.prompts import prompt_of
from tests.stack import LOCAL, Farm, ReplicaServer, make_request, own_stack
from tests.tiny import build_model
from tests.waiting import PATIENCE_S

KV_BYTES = 4 << 20
ROWS = 77
CLOSE = 0.02
"""Relative difference of the logits: two layers in bfloat16 of 8 bits, summed in other orders."""


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    """A compiled runner takes torch's threads away."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models with heads of 32 numbers. Mistral's window is shorter than the prompts."""
    build()
    folder = tmp_path_factory.mktemp("wide")
    for architecture in ("llama", "mistral", "qwen2"):
        build_model(folder / architecture, architecture, hidden_size=128)
    return folder


@pytest.fixture(params=["llama", "mistral", "qwen2"], scope="module")
def folder(request: pytest.FixtureRequest, wide: Path) -> Path:
    return wide / str(request.param)


def runner_of(folder: Path, compile: str = "on", threads: int = 2, **more: Any) -> ModelRunner:
    return ModelRunner(ModelOptions(str(folder), kv_bytes=KV_BYTES, compile=compile, threads=threads, **more))


def test_rows_are_invariant_to_the_bit(folder: Path) -> None:
    """Without padding: every chunking, alone and beside another session, on any number of threads."""
    runner = runner_of(folder)
    assert runner.path == "compiled pass, 2 threads, rows in multiples of 1"
    assert is_row_invariant(runner)
    tokens = prompt_of(ROWS)
    whole = logits_in_chunks(runner, tokens, ROWS)
    for chunk, beside in ((1, 0), (1, 9), (2, 7), (5, 40), (9, 0), (16, 1), (33, 0), (64, 40)):
        assert torch.equal(logits_in_chunks(runner, tokens, chunk, beside), whole), f"chunks of {chunk}, {beside}"
    assert torch.equal(logits_in_chunks(runner_of(folder, threads=3), tokens, 8), whole)


def test_logits_are_close_to_transformers_own(folder: Path) -> None:
    """In norm, and each greedy token is one of transformers' best but for rounding."""
    tokens = prompt_of(ROWS)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    with torch.inference_mode():
        theirs = model(torch.tensor([tokens])).logits[0].float()
    ours = logits_in_chunks(runner_of(folder), tokens, ROWS)
    assert float((ours - theirs).norm() / theirs.norm()) < CLOSE
    chosen = theirs.gather(1, ours.argmax(1, keepdim=True))[:, 0]
    assert float((theirs.amax(1) - chosen).max()) < CLOSE * float(theirs.abs().max())


def test_off_runs_transformers_modules(folder: Path) -> None:
    """The bits of the eager path, and no way to another one."""
    runner = runner_of(folder, "off")
    model = load(runner.options)
    eager = EagerPath(model, Hook(model), runner.layers, runner._store, None, compiled_attention=True)
    assert not runner.upgradable
    assert runner.path.startswith(eager.words)
    assert calibrate(runner)
    tokens = prompt_of(ROWS)
    ours = logits_in_chunks(runner, tokens, ROWS)
    runner._path = eager
    assert torch.equal(logits_in_chunks(runner, tokens, ROWS), ours)


@pytest.mark.parametrize("compile", ["on", "off"])
def test_a_cut_head_leaves_the_logits_of_its_tokens_as_they_are(wide: Path, compile: str) -> None:
    """The others are minus infinity. Compiled the rest has the same bits: an output does not know of the others."""
    ids = (0, 3, 5, 17, 64, 200, 318)
    tokens = prompt_of(40)
    whole = logits_in_chunks(runner_of(wide / "llama", compile), tokens, 40)
    cut_runner = runner_of(wide / "llama", compile, head_ids=ids)
    cut = logits_in_chunks(cut_runner, tokens, 40)
    assert cut.shape == whole.shape
    assert torch.equal(cut[:, list(ids)], whole[:, list(ids)])
    kept = torch.zeros(whole.shape[1], dtype=torch.bool)
    kept[list(ids)] = True
    assert bool((cut[:, ~kept] == float("-inf")).all())
    assert calibrate(cut_runner)


def test_a_cut_head_forgets_nothing_of_a_larger_pass(wide: Path) -> None:
    """Passes with more and with fewer wanted rows in turn."""
    runner = runner_of(wide / "llama", head_ids=(1, 2, 300))
    tokens = prompt_of(40)
    few = logits_in_chunks(runner, tokens, 3)
    assert torch.equal(logits_in_chunks(runner, tokens, 40), few)
    assert torch.equal(logits_in_chunks(runner, tokens, 3), few)


@pytest.mark.parametrize(
    ("architecture", "dtype", "words"),
    [
        ("gpt2", "bfloat16", "models of type 'gpt2' have no compiled pass"),
        ("llama", "float32", "for bfloat16 on a CPU"),
        ("llama", "bfloat16", "a head size that is no multiple of 32"),
    ],
)
def test_a_model_without_a_compiled_pass_is_refused_when_one_is_asked_for(
    models: Path, architecture: str, dtype: str, words: str
) -> None:
    """And runs eagerly, for that reason, when none is."""
    options = ModelOptions(str(models / architecture), dtype, kv_bytes=KV_BYTES, compile="on")
    with pytest.raises(IncompatibleReplica, match=f"a compiled pass was asked for: .*{words}"):
        ModelRunner(options)
    runner = runner_of(models / architecture, "auto", dtype=dtype)
    assert words in (runner.obstacle or "")
    assert not runner.upgradable
    assert "linears" in runner.path


def test_an_upgrade_changes_the_path_and_keeps_invariance(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started without machine code, it computes with none of it; afterwards it has the bits of a compiled start."""
    monkeypatch.setattr(artefacts, "are_ready", lambda: False)
    runner = runner_of(folder, "auto")
    assert runner.upgradable
    assert runner.path.startswith("packed linears, float64 attention")
    assert calibrate(runner)
    tokens = prompt_of(ROWS)
    before = logits_in_chunks(runner, tokens, ROWS)
    monkeypatch.undo()
    assert runner.upgrade()
    assert not runner.upgradable
    assert calibrate(runner)
    assert runner.path == "compiled pass, 2 threads, rows in multiples of 1"
    after = logits_in_chunks(runner, tokens, ROWS)
    assert float((after - before).norm() / before.norm()) < CLOSE
    assert torch.equal(logits_in_chunks(runner_of(folder), tokens, ROWS), after)


def test_a_compiled_pass_with_other_logits_is_not_taken(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever went wrong: ``auto`` goes on with modules and says why, ``on`` refuses."""
    right = ModelRunner._difference
    monkeypatch.setattr(ModelRunner, "_difference", lambda *arguments: right(*arguments) + 1.0)
    runner = runner_of(wide / "llama", "auto")
    assert "differ from the model's by 1.0" in (runner.obstacle or "")
    assert not runner.upgradable
    assert runner.path.startswith("packed linears, compiled attention")
    assert calibrate(runner)
    with pytest.raises(IncompatibleReplica, match="differ from the model's by 1"):
        runner_of(wide / "llama", "on")


async def path_of(stub: Any) -> str:
    response = await stub.GetReplicaInfo(target_pb2.TargetServiceGetReplicaInfoRequest(), timeout=5)
    return str(response.info.numerics.path)


async def test_a_replica_goes_over_in_the_background(farm: Farm, wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves meanwhile, waits for the end of a running answer, and its caches are rebuilt without a trace."""
    model = wide / "llama"
    draft = await farm.replica("draft", model, "bfloat16", compile="on")
    reference = await farm.stack(model, None, "bfloat16", compile="on")
    may_build, built = asyncio.Event(), asyncio.Event()
    start_process = asyncio.create_subprocess_exec

    async def start_when_allowed(*arguments: Any) -> Any:
        await may_build.wait()
        process = await start_process(*arguments)
        await process.wait()
        built.set()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_when_allowed)
    monkeypatch.setattr(artefacts, "are_ready", lambda: False)
    config = ReplicaConfig(str(model), LOCAL, kv_bytes=KV_BYTES, threads=1)
    async with own_stack(ReplicaServer.start("target", config), draft) as stack:
        channel = stack.target_member.channel
        assert channel is not None
        stub = TargetServiceStub(channel)
        assert (await path_of(stub)).startswith("packed linears")
        kept = await stack.generate(prompt_of(40), 4, max_new_tokens=24, keep_session=True)
        whole = await stack.generate(prompt_of(40), 0, max_new_tokens=120)
        crossing = stack.stream(make_request(prompt_of(40), 2, max_new_tokens=120))
        ids: list[int] = []
        async for event in crossing:
            ids.extend(event.delta.token_ids)
            if len(ids) > 4 and not built.is_set():
                may_build.set()
                await asyncio.wait_for(built.wait(), PATIENCE_S)
                assert (await path_of(stub)).startswith("packed linears"), "an answer is running"
        assert ids == whole.ids, "no answer crosses"
        upgrading = stack.target.replica.upgrading
        assert upgrading is not None
        await asyncio.wait_for(upgrading, PATIENCE_S)
        assert (await path_of(stub)).startswith("compiled pass")
        assert stack.target.replica.facts.row_invariant
        after = await stack.generate(prompt_of(40), 4, max_new_tokens=60)
        assert after.ids == (await reference.generate(prompt_of(40), 0, max_new_tokens=60)).ids
        after.check_all_accepted()
        again = await stack.generate([7, 8], 4, max_new_tokens=20, session_id=kept.session_id)
        history = [*prompt_of(40), *kept.ids, 7, 8]
        assert again.finished.usage.prompt_tokens == len(history)
        assert again.ids == (await reference.generate(history, 0, max_new_tokens=20)).ids


@pytest.mark.parametrize("compile", ["on", "off"])
def test_a_head_is_not_cut_to_tokens_that_the_model_does_not_have(wide: Path, compile: str) -> None:
    with pytest.raises(IncompatibleReplica, match="320"):
        runner_of(wide / "llama", compile, head_ids=(5, 320))
