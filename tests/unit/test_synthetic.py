"""A synthetic model: its choice is a function of what a row can see and of nothing else, its draft is wrong as often
as it is told to, and its passes take their time."""

import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draft_service.drafter import Propose
from outrider.choice import choose
from outrider.config import ConfigError, load
from outrider.errors import IncompatibleReplica
from outrider.inference.engine import Engine
from outrider.inference.packed import Segment, pack
from outrider.inference.punctual import Punctual
from outrider.inference.synthetic import SyntheticRunner, load_synthetic
from outrider.inference.synthetic_choices import LEAST_WORDS, RANKS, Choices, mixed, words
from outrider.pass_times import PassTimes
from outrider.replica_config import DraftConfig, ReplicaConfig
from outrider.sampling import MAX_TEMPERATURE, SamplingParams
from outrider.tokenizer import Tokenizer
from target_service.verifier import Verify
from tests.tiny import EOS, SPECIALS, VOCABULARY, save_tokenizer
from tests.unit.scripted import claim_of, drain, submit

BLOCK = SyntheticRunner.block_size
WORDS = np.arange(4, 60)
GREEDY = SamplingParams()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder without a model."""
    made = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(made)
    return made


def runner_of(choices: Choices | None = None, num_blocks: int = 64, times: str = "0") -> SyntheticRunner:
    return SyntheticRunner(choices or Choices(WORDS), PassTimes.parse(times), num_blocks)


def context_of(length: int, name: object = 0) -> list[int]:
    draw = random.Random(f"{name}/{length}")
    return [draw.randrange(4, 60) for _ in range(length)]


def run(runner: SyntheticRunner, tokens: Sequence[int], blocks: Sequence[int], start: int = 0) -> list[int]:
    """Choices after each of the tokens, which lie at ``start`` and after it."""
    logits = runner.forward(pack([Segment(tokens, start, blocks, len(tokens))], BLOCK, runner.row_multiple))
    return [int(row.argmax()) for row in logits]


def in_one_pass(tokens: Sequence[int]) -> list[int]:
    return run(runner_of(), tokens, list(range(-(-len(tokens) // BLOCK))))


@given(st.lists(st.integers(4, 59), min_size=1, max_size=100), st.data())
def test_chunks_and_blocks_do_not_matter(tokens: list[int], data: st.DataObject) -> None:
    """The same tokens in any chunks, on any blocks, give the choices that one pass gives."""
    runner = runner_of()
    blocks = data.draw(st.permutations(range(8)))
    choices: list[int] = []
    while len(choices) < len(tokens):
        count = data.draw(st.integers(1, len(tokens) - len(choices)))
        choices += run(runner, tokens[len(choices) : len(choices) + count], blocks, len(choices))
    assert choices == in_one_pass(tokens)


def test_neighbours_and_padding_do_not_matter() -> None:
    """The last block is in use: a padding row that were written would land in it."""
    runner = runner_of(num_blocks=12)
    runner.row_multiple = 8
    contexts = [context_of(length) for length in (1, 5, BLOCK, 70)]
    segments = [Segment(tokens, 0, range(3 * i, 3 * i + 3), 1) for i, tokens in enumerate(contexts)]
    logits = runner.forward(pack(segments, BLOCK, runner.row_multiple))
    assert [int(row.argmax()) for row in logits[:4]] == [in_one_pass(tokens)[-1] for tokens in contexts]


def test_a_copied_block_continues_like_its_source() -> None:
    runner = runner_of()
    tokens = context_of(BLOCK + 5)
    run(runner, tokens, [0, 1])
    runner.copy_blocks([(1, 7)])
    run(runner, [59, 58], [0, 1], len(tokens))
    assert run(runner, [4, 5, 6], [0, 7], len(tokens)) == in_one_pass([*tokens, 4, 5, 6])[-3:]


@pytest.mark.parametrize("place", [0, 1, BLOCK - 1, BLOCK, 150])
def test_every_token_of_the_context_matters_and_so_does_its_place(place: int) -> None:
    """Over 40 contexts each; two hashes choose the same of 56 words with chance 1/56, so 10 of 40 do so by chance
    with odds of 1e-9."""
    changed = moved = 0
    for number in range(40):
        tokens = context_of(152, number)
        other = [*tokens[:place], tokens[place] % 50 + 5, *tokens[place + 1 :]]
        swapped = [*tokens[:place], tokens[place + 1], tokens[place], *tokens[place + 2 :]]
        changed += in_one_pass(other)[-1] != in_one_pass(tokens)[-1]
        moved += tokens == swapped or in_one_pass(swapped)[-1] != in_one_pass(tokens)[-1]
    assert changed > 30
    assert moved > 30


def test_a_wrong_block_or_a_stale_one_changes_the_choice() -> None:
    """What the services could get wrong shows: another session's block, or one that was not copied."""
    runner, tokens = runner_of(), context_of(40)
    right = run(runner, tokens, [0, 1])
    run(runner, context_of(BLOCK, "other"), [2])
    wrong = runner.forward(pack([Segment([5], 40, [2, 1], 1)], BLOCK, 1))
    assert int(wrong[0].argmax()) != in_one_pass([*tokens, 5])[-1]
    assert right == in_one_pass(tokens)


def contexts_of(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return mixed(np.arange(count, dtype=np.uint64))


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("second", [0.0, 0.7, 1.0])
def test_a_draft_agrees_as_often_as_it_is_told_to(acceptance: float, second: float) -> None:
    """20 000 contexts; each share within five standard errors of its chance: 1 in 1.7 million is outside."""
    target = Choices(WORDS).ranked(contexts_of(20_000))[:, 0]
    drafted = Choices(WORDS, acceptance, second).ranked(contexts_of(20_000))
    left = 1.0
    for rank, chance in enumerate([acceptance, *[second] * 3]):
        seen = float((drafted[:, rank] == target).mean())
        error = 5 * math.sqrt(max(left * chance * (1 - left * chance), 0) / 20_000)
        assert abs(seen - left * chance) <= error + 1e-12, f"rank {rank}"
        left *= 1 - chance


def test_agreement_at_one_place_says_nothing_of_the_next() -> None:
    """Pairs of neighbours in one text agree both with chance 0.64; within five standard errors over 4000 pairs."""
    tokens = context_of(8001)
    blocks = list(range(-(-8001 // BLOCK)))
    logits = runner_of(Choices(WORDS, 0.8, 0.7), 256).forward(pack([Segment(tokens, 0, blocks, 8001)], BLOCK, 1))
    plain = runner_of(Choices(WORDS), 256).forward(pack([Segment(tokens, 0, blocks, 8001)], BLOCK, 1))
    agrees = (logits.argmax(1) == plain.argmax(1)).numpy()
    both = float((agrees[:-1:2] & agrees[1::2]).mean())
    assert abs(both - 0.64) < 5 * math.sqrt(0.64 * 0.36 / 4000)


def test_ranks_are_distinct_words_and_the_choices_are_spread_over_all() -> None:
    """56 words, 20 000 draws: each is expected 357 times with a standard error of 19; 250 to 470 is 5.6 of them."""
    ranked = Choices(WORDS, 0.5, 0.5).ranked(contexts_of(20_000))
    assert ranked.shape == (20_000, RANKS)
    assert all(len(set(row)) == RANKS for row in ranked[:2000].tolist())
    counts = np.bincount(Choices(WORDS).ranked(contexts_of(20_000))[:, 0], minlength=60)[4:]
    assert 250 < counts.min() <= counts.max() < 470
    assert set(ranked.ravel().tolist()) == set(WORDS.tolist())


@pytest.mark.parametrize("temperature", [0.0, 1.0, MAX_TEMPERATURE])
def test_noise_turns_no_ranks_around(temperature: float) -> None:
    runner = runner_of(Choices(WORDS, 0.5, 0.7))
    logits = runner.forward(pack([Segment(context_of(300), 0, range(10), 300)], BLOCK, 1))
    for number, row in enumerate(logits):
        params = SamplingParams(temperature, top_k=40, top_p=0.9, min_p=0.1, seed=number)
        assert choose(row, (), params, number) == int(row.argmax())


def rounds(target: Engine, draft: Engine, prompt: Sequence[int], count: int, k: int) -> list[int]:
    """Speculative decoding over two engines, as the orchestrator does it."""
    log, seen = list(prompt), {target: 0, draft: 0}
    while len(log) - len(prompt) < count:
        block: tuple[int, ...] = ()
        if k:
            _, proposed = submit(draft, "a", claim_of(log, seen[draft]), Propose(GREEDY, k, VOCABULARY))
            drain(draft)
            block, seen[draft] = proposed.outcome.result, proposed.outcome.cached_len
        _, verified = submit(target, "a", claim_of(log, seen[target]), Verify(GREEDY, block, VOCABULARY))
        drain(target)
        verdict, seen[target] = verified.outcome.result, verified.outcome.cached_len
        log += [*block[: verdict.num_accepted], verdict.next_token]
        seen[draft] = min(seen[draft], len(log) - 1)
    return log[len(prompt) :][:count]


@pytest.mark.parametrize("acceptance", [0.0, 0.6, 1.0])
def test_speculation_through_two_engines_gives_the_plain_text(acceptance: float) -> None:
    plain = rounds(Engine(runner_of()), Engine(runner_of()), context_of(45), 60, 0)
    for k in (1, 3, 8):
        draft = Engine(runner_of(Choices(WORDS, acceptance, 0.7)))
        assert rounds(Engine(runner_of()), draft, context_of(45), 60, k) == plain
    assert len(set(plain)) > 20, "no constant loop"


def test_a_pass_takes_at_least_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the moment at which it should have ended, by the rows that it has; a pass that is late does not wait."""
    moments: list[float] = []
    clock = iter([10.0, 20.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(Punctual, "wait", lambda self, moment: moments.append(moment))
    runner = runner_of(times="1:20,5:40")
    run(runner, context_of(3), [0])
    run(runner, context_of(5), [0])
    assert moments == pytest.approx([10.030, 20.040])


def test_words_are_letters_and_never_special(folder: Path) -> None:
    tokenizer = Tokenizer.load(str(folder))
    found = words(tokenizer)
    assert LEAST_WORDS <= len(found) <= 512
    assert min(found) >= len(SPECIALS) > EOS
    assert all(tokenizer.decode([token]).strip().isalpha() for token in found.tolist())
    with pytest.raises(IncompatibleReplica, match=f"{LEAST_WORDS} are needed"):
        words(Tokenizer(tokenizer.fast, LEAST_WORDS, "", None, {}))


def test_the_handshake_says_what_it_is(folder: Path) -> None:
    for kind, words_of in ((ReplicaConfig, "passes of 3.0 ms"), (DraftConfig, "right with chance 0.8, next with 0.7")):
        config = kind(str(folder), engine="synthetic", synthetic_pass_ms=PassTimes.parse("3"), kv_bytes=10_000)
        runner, facts = load_synthetic(config)
        assert facts.numerics.path.startswith("synthetic, no model")
        assert words_of in facts.numerics.path
        assert facts.row_invariant
        assert (facts.vocab_size, facts.eos_token_ids) == (VOCABULARY, ())
        assert facts.kv_capacity_tokens == runner.num_blocks * BLOCK == 10_000 // (8 * BLOCK) * BLOCK
    assert load_synthetic(ReplicaConfig(str(folder), engine="synthetic"))[1].kv_capacity_tokens >= 8192


def test_no_tokenizer_and_no_room_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing"):
        load_synthetic(ReplicaConfig(str(tmp_path), engine="synthetic"))
    with pytest.raises(IncompatibleReplica, match="a KV budget of 255 bytes is less than one synthetic block of 256"):
        load_synthetic(ReplicaConfig(str(folder), engine="synthetic", kv_bytes=255))


@pytest.mark.parametrize(
    ("name", "value", "engine"),
    [
        ("SYNTHETIC_PASS_MS", "20", "model"),
        ("SYNTHETIC_ACCEPTANCE", "0.5", "model"),
        ("SYNTHETIC_SECOND", "0.5", "model"),
        ("COMPILE", "on", "synthetic"),
        ("DTYPE", "float32", "synthetic"),
        ("DEVICE", "cuda", "synthetic"),
        ("THREADS", "2", "synthetic"),
        ("DRAFT_VOCAB", "ids.npy", "synthetic"),
        ("TRUST_REMOTE_CODE", "true", "synthetic"),
    ],
)
def test_a_setting_of_the_other_engine_is_refused_by_name(name: str, value: str, engine: str) -> None:
    other = "synthetic" if engine == "model" else "model"
    environment = {"OUTRIDER_MODEL": "m", "OUTRIDER_ENGINE": engine, f"OUTRIDER_{name}": value}
    with pytest.raises(ConfigError, match=rf"^OUTRIDER_{name}='.*': needs OUTRIDER_ENGINE={other}$"):
        load(DraftConfig, environment)
    assert load(DraftConfig, environment | {"OUTRIDER_ENGINE": other}).engine == other


def test_the_settings_of_the_synthetic_engine_are_read() -> None:
    environment = {
        "OUTRIDER_MODEL": "m",
        "OUTRIDER_ENGINE": "synthetic",
        "OUTRIDER_SYNTHETIC_PASS_MS": "1:2,64:9",
        "OUTRIDER_SYNTHETIC_ACCEPTANCE": "0.25",
        "OUTRIDER_SYNTHETIC_SECOND": "0",
    }
    config = load(DraftConfig, environment)
    assert (str(config.synthetic_pass_ms), config.synthetic_acceptance, config.synthetic_second) == (
        "1:2.0,64:9.0",
        0.25,
        0,
    )
    assert load(ReplicaConfig, environment).synthetic_pass_ms == config.synthetic_pass_ms
