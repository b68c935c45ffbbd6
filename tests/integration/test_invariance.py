"""Design I1: a position's logits have the same bits however many rows share its pass."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from outrider.inference.invariance import calibrate, logits_in_chunks
from outrider.inference.model import ModelOptions, ModelRunner
from outrider.inference.packed import Segment, pack
from outrider.inference.threads import available_threads
from tests.integration.prompts import prompt_of

ROWS = 64


@pytest.fixture(autouse=True)
def real_threads() -> Iterator[None]:
    """As many threads as a replica takes by itself: the number may change how a product is cut."""
    before = torch.get_num_threads()
    torch.set_num_threads(available_threads())
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["llama", "gemma3", "gpt2"], scope="module")
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["float32", "bfloat16"], scope="module")
def runner(request: pytest.FixtureRequest, models: Path, architecture: str) -> ModelRunner:
    """A runner that has been calibrated like a replica's."""
    made = ModelRunner(ModelOptions(str(models / architecture), request.param, kv_bytes=8 << 20))
    assert calibrate(made), made.path
    return made


def test_every_number_of_rows(runner: ModelRunner) -> None:
    """The first n positions in one pass, for every n: each equals the pass of all of them."""
    tokens = prompt_of(ROWS)
    whole = logits_in_chunks(runner, tokens, ROWS)
    for rows in range(1, ROWS + 1):
        assert torch.equal(logits_in_chunks(runner, tokens, rows, passes=1), whole[:rows]), f"{rows} rows"


def test_every_chunking_alone_and_beside_others(runner: ModelRunner) -> None:
    """Decode, verify, chunked prefill and rebuild: the same bits, whoever shares the pass."""
    tokens = prompt_of(ROWS + 13)
    whole = logits_in_chunks(runner, tokens, len(tokens))
    for chunk, beside in ((1, 0), (2, 7), (3, 1), (5, 40), (9, 0), (16, 7), (33, 1), (64, 40)):
        logits = logits_in_chunks(runner, tokens, chunk, beside)
        assert torch.equal(logits, whole), f"chunks of {chunk} beside {beside} rows"


def test_many_ragged_sessions_in_one_pass(runner: ModelRunner) -> None:
    """Sessions of 1 to 40 tokens side by side, scattered over the blocks, equal their solo passes."""
    prompts = [prompt_of(length, length) for length in (1, 2, 3, 7, 16, 33, 40, 5)]
    solo = [logits_in_chunks(runner, prompt, len(prompt)) for prompt in prompts]
    segments = [Segment(prompt, 0, [runner.num_blocks - 1 - i, i], len(prompt)) for i, prompt in enumerate(prompts)]
    logits = runner.forward(pack(segments, runner.block_size, runner.row_multiple))
    offset = 0
    for prompt, alone in zip(prompts, solo, strict=True):
        assert torch.equal(logits[offset : offset + len(prompt)], alone), f"{len(prompt)} tokens"
        offset += len(prompt)


def test_the_default_target(default_pair: tuple[Path, Path]) -> None:
    """The real model in the dtype that it serves in."""
    runner = ModelRunner(ModelOptions(str(default_pair[0]), "bfloat16", kv_bytes=64 << 20))
    assert calibrate(runner), runner.path
    tokens = [(7919 * i) % 49000 + 20 for i in range(40)]
    whole = logits_in_chunks(runner, tokens, len(tokens))
    for chunk, beside in ((1, 0), (1, 9), (3, 0), (5, 20), (9, 0), (17, 3)):
        logits = logits_in_chunks(runner, tokens, chunk, beside, passes=4)
        assert torch.equal(logits, whole[: len(logits)]), f"chunks of {chunk} beside {beside} rows"
