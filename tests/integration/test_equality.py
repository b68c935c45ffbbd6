"""Promise 1: a request's tokens do not depend on the draft, the block length, the neighbours or the caches.

Every test runs a request plainly (no draft tokens) and again with something that must not matter. "Twin" is a
draft with the target's own weights: whatever it proposes must be accepted, in every round.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from outrider.v1 import orchestrator_pb2 as pb
from tests.integration.prompts import prompt_of
from tests.stack import Answer, Farm, ReplicaServer, Stack, make_request, own_stack
from tests.tiny import VOCABULARY, build_model, save_tokenizer

BLOCKS = (1, 2, 4, 8)
Key = TypeVar("Key")
DTYPES = ("float32", "bfloat16")
SETTINGS: tuple[dict[str, Any], ...] = ({"temperature": 0.0}, {"temperature": 0.8, "seed": 1234})


async def together(work: dict[Key, Coroutine[Any, Any, Answer]]) -> dict[Key, Answer]:
    """Answers that are made at the same time, by name."""
    return dict(zip(work, await asyncio.gather(*work.values()), strict=True))


@pytest.fixture(params=["good", "random", "twin", "absent"])
def draft(request: pytest.FixtureRequest, llama: Path, good_draft: Path, random_draft: Path) -> Path | None:
    """Each kind of draft in turn."""
    kinds = {"good": good_draft, "random": random_draft, "twin": llama, "absent": None}
    return kinds[request.param]


@pytest.fixture
async def twin(farm: Farm, llama: Path) -> Stack:
    """Draft and target of the same weights, in fp32."""
    return await farm.stack(llama, llama)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "sampled"])
async def test_any_draft_and_block_length_give_the_plain_tokens(
    farm: Farm, llama: Path, draft: Path | None, sampling: dict[str, Any], dtype: str
) -> None:
    """The matrix: 1, k and k+1 tokens of prompt, every k, every draft, both dtypes, greedy and sampled."""
    stack = await farm.stack(llama, draft, dtype)
    prompts = {length: prompt_of(length) for length in {1, 2, *BLOCKS, *(k + 1 for k in BLOCKS)}}
    plain = await together(
        {length: stack.generate(prompt, 0, max_new_tokens=36, **sampling) for length, prompt in prompts.items()}
    )
    cells = {(k, length) for k in BLOCKS for length in (1, 2, k, k + 1)}
    answers = await together(
        {(k, length): stack.generate(prompts[length], k, max_new_tokens=36, **sampling) for k, length in cells}
    )
    for (k, length), answer in answers.items():
        assert answer.ids == plain[length].ids, f"k={k}, {length} tokens of prompt"
        if draft == llama:
            answer.check_all_accepted()
            assert answer.finished.speculation.proposed > 0


async def test_the_drafts_differ_in_how_often_they_are_right(
    farm: Farm, llama: Path, good_draft: Path, random_draft: Path
) -> None:
    """The matrix means something only if blocks are accepted wholly, partly and not at all."""
    shares = {}
    for name, draft in (("good", good_draft), ("random", random_draft), ("twin", llama)):
        stack = await farm.stack(llama, draft)
        summary = (await stack.generate(prompt_of(12), 4, max_new_tokens=96)).finished.speculation
        shares[name] = summary.accepted / summary.proposed
    assert shares["twin"] == 1
    assert 0.2 < shares["good"] < 0.95
    assert shares["random"] < 0.1


@pytest.mark.parametrize("dtype", DTYPES)
async def test_a_long_prompt_in_many_chunks(farm: Farm, llama: Path, good_draft: Path, dtype: str) -> None:
    """1000 tokens of prompt need several passes; a twin is right from the first round on."""
    prompt = prompt_of(1000)
    for draft in (good_draft, llama):
        stack = await farm.stack(llama, draft, dtype)
        plain = await stack.generate(prompt, max_new_tokens=24)
        speculated = await stack.generate(prompt, 4, max_new_tokens=24)
        assert speculated.ids == plain.ids
        if draft == llama:
            speculated.check_all_accepted()


@pytest.mark.parametrize("dtype", DTYPES)
async def test_neighbours_do_not_matter(farm: Farm, llama: Path, good_draft: Path, dtype: str) -> None:
    """Eight sessions of different lengths, block lengths and temperatures at once equal their solo runs."""
    stack = await farm.stack(llama, good_draft, dtype)
    wishes: list[dict[str, Any]] = [
        {"k": k, "prompt": prompt_of(length, length), "temperature": 0.8 * (k % 2), "seed": length}
        for length, k in zip((1, 2, 3, 7, 16, 33, 64, 100), (1, 2, 3, 4, 5, 6, 7, 8), strict=True)
    ]
    solo = [await stack.generate(**(wish | {"k": 0}), max_new_tokens=40) for wish in wishes]
    packed = await asyncio.gather(*(stack.generate(**wish, max_new_tokens=40) for wish in wishes))
    assert [answer.ids for answer in packed] == [answer.ids for answer in solo]


async def evicting(stack: Stack, request: pb.GenerateRequest, sides: tuple[ReplicaServer, ...]) -> Answer:
    """An answer during which one side after another loses its cache, once after every round."""
    answer = Answer()
    dropped = 0
    async for event in stack.stream(request):
        answer.read(event)
        for side in sides:
            dropped += await side.evict()
    answer.check_books()
    assert dropped > 0
    return answer


@pytest.mark.parametrize("side", ["draft", "target", "both"])
@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "sampled"])
async def test_eviction_is_invisible(twin: Stack, side: str, sampling: dict[str, Any]) -> None:
    """Any cache may go at any time; it costs time, and a twin is still never wrong."""
    assert twin.draft is not None
    sides = {"draft": (twin.draft,), "target": (twin.target,), "both": (twin.draft, twin.target)}[side]
    plain = await twin.generate(prompt_of(21), max_new_tokens=60, **sampling)
    for k in (2, 8):
        request = make_request(prompt_of(21), k, max_new_tokens=60, **sampling)
        answer = await evicting(twin, request, sides)
        assert answer.ids == plain.ids
        answer.check_all_accepted()


async def test_a_cache_for_two_sessions_serves_six(farm: Farm, llama: Path) -> None:
    """Six streams of 100 tokens press each other out of a KV budget for about two of them."""
    budget = 9 * 16384  # nine blocks
    target = await farm.replica("target", llama, kv_bytes=budget)
    draft = await farm.replica("draft", llama, kv_bytes=budget)
    assert target.replica.facts.kv_capacity_tokens < 300
    roomy = await farm.stack(llama, llama)
    settings: list[dict[str, Any]] = [
        {"temperature": 0.8 * (i % 2), "seed": i, "max_new_tokens": 100} for i in range(6)
    ]
    plain = [await roomy.generate(prompt_of(20, i), 0, **settings[i]) for i in range(6)]
    async with own_stack(target, draft) as stack:
        pressed = await asyncio.gather(*(stack.generate(prompt_of(20, i), 4, **settings[i]) for i in range(6)))
    assert [answer.ids for answer in pressed] == [answer.ids for answer in plain]
    assert target.replica.engine.sessions.evictions > 0
    for answer in pressed:
        answer.check_all_accepted()


@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("evict", [False, True], ids=["warm", "evicted"])
async def test_three_turns_of_one_session(twin: Stack, sampling: dict[str, Any], evict: bool) -> None:
    """Later turns equal a fresh session that is given the whole history, and a twin stays right."""
    assert twin.draft is not None
    history: list[int] = []
    session_id = ""
    for turn in range(3):
        words = prompt_of(5 + turn, turn)
        fresh = await twin.generate([*history, *words], 0, max_new_tokens=17, **sampling)
        if evict:
            await twin.target.evict() if turn == 1 else await twin.draft.evict()
        answer = await twin.generate(
            words, 4, max_new_tokens=17, session_id=session_id, keep_session=turn < 2, **sampling
        )
        assert answer.ids == fresh.ids, f"turn {turn}"
        assert answer.finished.usage.prompt_tokens == len(history) + len(words)
        answer.check_all_accepted()
        session_id = answer.session_id
        history += [*words, *answer.ids]


async def test_three_turns_of_a_chat(twin: Stack) -> None:
    """A chat session reads like a fresh chat with the same visible history."""
    said: list[pb.ChatMessage] = []
    session_id = ""
    for turn in range(3):
        question = pb.ChatMessage(role="user", content=f"question {turn}?")
        fresh = await twin.generate(pb.Chat(messages=[*said, question]), 0, max_new_tokens=15)
        answer = await twin.generate(
            pb.Chat(messages=[question]), 4, max_new_tokens=15, session_id=session_id, keep_session=turn < 2
        )
        assert (answer.ids, answer.text) == (fresh.ids, fresh.text), f"turn {turn}"
        assert answer.started.prompt_tokens == fresh.started.prompt_tokens
        session_id = answer.session_id
        said += [question, pb.ChatMessage(role="assistant", content=answer.text)]


async def test_the_same_prompt_again(twin: Stack) -> None:
    """Whole-prompt cache hits, block borders and their neighbours: a repeated request gives the same ids."""
    plain = {length: (await twin.generate(prompt_of(length), max_new_tokens=10)).ids for length in (1, 31, 32, 33, 64)}
    for _ in range(2):
        again = await together({length: twin.generate(prompt_of(length), 2, max_new_tokens=10) for length in plain})
        assert {length: answer.ids for length, answer in again.items()} == plain


@pytest.mark.parametrize("k", BLOCKS)
async def test_max_new_tokens_is_exact(twin: Stack, k: int) -> None:
    """Never a token more or less, wherever the limit falls in a block; the last round asks for no more than is left."""
    plain = await twin.generate(prompt_of(6), 0, max_new_tokens=2 * k + 2)
    answers = await together(
        {most: twin.generate(prompt_of(6), k, max_new_tokens=most) for most in range(1, 2 * k + 3)}
    )
    for most, answer in answers.items():
        assert answer.ids == plain.ids[:most]
        assert answer.reason == "LENGTH"
        assert sum(len(stats.draft_tokens) + 1 for stats in answer.rounds) == most


@pytest.fixture(scope="session")
def short_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with 64 positions: learned ones fail loudly beyond them, rotary ones silently."""
    folder = tmp_path_factory.mktemp("short")
    return {
        "llama": build_model(folder / "llama", max_position_embeddings=64),
        "gpt2": build_model(folder / "gpt2", "gpt2", n_positions=64),
    }


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
async def test_the_end_of_the_context(farm: Farm, short_models: dict[str, Path], architecture: str) -> None:
    """Blocks shrink at the last positions: LENGTH, the plain tokens, and no error in any service."""
    folder = short_models[architecture]
    stack = await farm.stack(folder, folder)
    for length in (64 - 10, 64 - 9, 64 - 8, 64 - 2, 64 - 1):
        plain = await stack.generate(prompt_of(length), 0, max_new_tokens=100)
        answer = await stack.generate(prompt_of(length), 8, max_new_tokens=100)
        assert answer.ids == plain.ids
        assert len(answer.ids) == 64 - length
        assert (plain.reason, answer.reason) == ("LENGTH", "LENGTH")
        assert answer.finished.speculation.draft_faults == 0
        answer.check_all_accepted()
    error = await stack.fails(make_request(prompt_of(65), 8))
    assert error.code().name == "INVALID_ARGUMENT"


async def test_a_draft_with_a_shorter_context(farm: Farm, llama: Path, short_models: dict[str, Path]) -> None:
    """Beyond its context the draft has nothing to say, and that is all."""
    stack = await farm.stack(llama, short_models["llama"])
    plain = await stack.generate(prompt_of(50), 0, max_new_tokens=40)
    answer = await stack.generate(prompt_of(50), 4, max_new_tokens=40)
    assert answer.ids == plain.ids
    assert answer.finished.speculation.draft_faults == 0


def first_positions(ids: list[int], most: int) -> list[int]:
    """Indexes below ``most`` of tokens that did not appear before."""
    return [index for index in range(most) if ids[index] not in ids[:index]]


@pytest.mark.parametrize("k", [4, 8])
async def test_an_end_token_at_each_offset(twin: Stack, k: int) -> None:
    """Declare a produced token as the end: the answer is cut right after it, and the KV holds no more."""
    assert twin.draft is not None
    plain = await twin.generate(prompt_of(3), 0, max_new_tokens=3 * k)

    async def ends_at(index: int) -> None:
        answer = await twin.generate(
            prompt_of(3), k, max_new_tokens=3 * k, stop_token_ids=[plain.ids[index]], keep_session=True
        )
        assert answer.ids == plain.ids[: index + 1]
        assert answer.reason == "STOP"
        assert answer.text == twin.tokenizer.decode(plain.ids[:index])
        fresh = await twin.generate([*prompt_of(3), *answer.ids, 5], 0, max_new_tokens=6)
        assert (await twin.generate([5], k, max_new_tokens=6, session_id=answer.session_id)).ids == fresh.ids

    await asyncio.gather(*(ends_at(index) for index in first_positions(plain.ids, 2 * k + 2)))


async def test_every_declared_end_token_ends(
    farm: Farm, llama: Path, twin: Stack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """generation_config.json lists two ends, config.json one: both end the turn; the target's list rules."""
    plain = await twin.generate(prompt_of(3), 0, max_new_tokens=20)
    second = plain.ids[first_positions(plain.ids, 12)[-1]]
    folder = build_model(tmp_path_factory.mktemp("ends") / "llama")
    (folder / "generation_config.json").write_text(f'{{"eos_token_id": [3, {second}]}}')
    stack = await farm.stack(folder, llama)
    for k in (0, 1, 4, 8):
        answer = await stack.generate(prompt_of(3), k, max_new_tokens=20, ignore_eos=False)
        assert answer.ids == plain.ids[: plain.ids.index(second) + 1]
        assert answer.reason == "STOP"


async def test_stop_texts_equal_the_plain_run(twin: Stack) -> None:
    """Every window of 1 to 3 produced tokens as a stop text: same text, ids and reason as plain, at every k."""
    prompt = prompt_of(4, "stops")
    plain = await twin.generate(prompt, 0, max_new_tokens=24)
    stops = {twin.tokenizer.decode(plain.ids[i : i + size]) for i in range(20) for size in (1, 2, 3)}
    usable = sorted(stop for stop in stops if stop and "\ufffd" not in stop)
    assert len(usable) > 10
    references = await together({stop: twin.generate(prompt, 0, max_new_tokens=24, stop=[stop]) for stop in usable})
    answers = await together({stop: twin.generate(prompt, 8, max_new_tokens=24, stop=[stop]) for stop in usable})
    for stop, answer in answers.items():
        reference = references[stop]
        assert reference.reason == "STOP"
        assert reference.text == plain.text[: plain.text.index(stop)]
        assert (answer.text, answer.ids, answer.reason) == (reference.text, reference.ids, reference.reason)


async def test_a_stop_text_that_never_comes_is_held_and_released(twin: Stack) -> None:
    """The start of a stop text waits, and is shown when the rest does not follow."""
    prompt = prompt_of(4, "stops")
    plain = await twin.generate(prompt, 0, max_new_tokens=24)
    nearly = [plain.text[i : i + 2] + "#never#" for i in range(0, 16, 2) if plain.text[i : i + 2]]
    answer = await twin.generate(prompt, 4, max_new_tokens=24, stop=nearly)
    assert (answer.text, answer.ids, answer.reason) == (plain.text, plain.ids, "LENGTH")


async def test_logprobs_are_the_plain_ones(farm: Farm, llama: Path, good_draft: Path) -> None:
    """One log-probability per token, accepted, corrected and bonus alike, whatever the temperature."""
    stack = await farm.stack(llama, good_draft)
    plain = await stack.generate(prompt_of(9), 0, logprobs=True)
    for k in (1, 4, 8):
        answer = await stack.generate(prompt_of(9), k, logprobs=True)
        assert answer.ids == plain.ids
        assert answer.logprobs == plain.logprobs
        assert len(answer.logprobs) == len(answer.ids)
    assert max(plain.logprobs) < 0


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
async def test_a_seed_makes_the_answer(farm: Farm, llama: Path, good_draft: Path, seed: int) -> None:
    """Same seed, same answer, whatever k; it comes back as it was sent."""
    stack = await farm.stack(llama, good_draft)
    answers = [await stack.generate(prompt_of(9), k, temperature=1.0, seed=seed) for k in (0, 0, 4)]
    assert all(answer.ids == answers[0].ids for answer in answers)
    assert {answer.started.seed for answer in answers} == {seed}


async def test_without_a_seed_each_run_differs_and_can_be_repeated(twin: Stack) -> None:
    """The server draws a seed and says which."""
    one, other = [await twin.generate(prompt_of(9), 4, temperature=1.0) for _ in range(2)]
    assert one.started.seed != other.started.seed
    assert one.ids != other.ids
    again = await twin.generate(prompt_of(9), 2, temperature=1.0, seed=one.started.seed)
    assert again.ids == one.ids


@pytest.mark.parametrize(
    "sampling",
    [{"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.2}, {"top_k": 50, "top_p": 0.9, "min_p": 0.01}],
    ids=lambda sampling: "+".join(sampling),
)
async def test_filters_act_at_every_position(
    farm: Farm, llama: Path, good_draft: Path, random_draft: Path, sampling: dict[str, Any]
) -> None:
    """Filtered sampling is the same with good and bad drafts."""
    plain = await (await farm.stack(llama)).generate(prompt_of(9), 0, temperature=1.2, seed=5, **sampling)
    for draft in (good_draft, random_draft, llama):
        stack = await farm.stack(llama, draft)
        answer = await stack.generate(prompt_of(9), 4, temperature=1.2, seed=5, **sampling)
        assert answer.ids == plain.ids
        if draft == llama:
            answer.check_all_accepted()


async def test_padded_vocabularies_are_no_mismatch(farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> None:
    """320 against 384 embedding rows over one tokenizer work both ways, and padding is never emitted."""
    folder = tmp_path_factory.mktemp("padded")
    narrow = build_model(folder / "narrow", seed=5)
    wide = build_model(folder / "wide", seed=6, vocab_size=384)
    for target, draft in ((narrow, wide), (wide, narrow)):
        stack = await farm.stack(target, draft)
        assert (await stack.info()).draft.state == pb.REPLICA_STATE_READY
        for sampling in ({"temperature": 0.0}, {"temperature": 3.0, "seed": 3}):
            plain = await stack.generate(prompt_of(7), 0, max_new_tokens=60, **sampling)
            answer = await stack.generate(prompt_of(7), 4, max_new_tokens=60, **sampling)
            assert answer.ids == plain.ids
            assert max(plain.ids) < VOCABULARY
            assert answer.finished.speculation.draft_faults == 0
            assert answer.finished.speculation.proposed > 0


async def test_another_tokenizer_is_refused(farm: Farm, llama: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Same size, two ids swapped: the pair is refused in words, and requests are answered without the draft."""
    folder = build_model(tmp_path_factory.mktemp("swapped") / "llama", seed=7)
    save_tokenizer(folder, swapped=("a", "b"))
    stack = await farm.stack(llama, folder)
    info = await stack.info()
    assert info.draft.state == pb.REPLICA_STATE_REFUSED
    assert info.draft.reason.count(f"has {VOCABULARY} tokens") == 2
    plain = await (await farm.stack(llama)).generate(prompt_of(7))
    for k in (None, 4):
        answer = await stack.generate(prompt_of(7), k)
        assert answer.ids == plain.ids
        summary = answer.finished.speculation
        assert summary.proposed == summary.copied, "a refused draft guesses nothing"
