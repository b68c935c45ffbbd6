"""Synthetic replicas behind real servers: the text is the target's, whatever draft, caches and network do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench.proxy import Proxy
from bench.shape import Shape
from outrider.pass_times import PassTimes
from outrider.replica_config import DraftConfig, ReplicaConfig
from tests.integration.processes import spawn
from tests.integration.prompts import prompt_of
from tests.stack import LOCAL, Answer, Farm, ReplicaServer, Stack, make_request, own_stack
from tests.tiny import save_tokenizer

TARGET_MS, DRAFT_MS = "1:6,64:12", "1"
NINE_BLOCKS = 9 * 32 * 8  # 288 tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer without a model: whoever looked for weights would fail."""
    made = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(made)
    return made


@contextlib.asynccontextmanager
async def replicas(
    folder: Path, acceptance: float = 0.8, target_ms: str = TARGET_MS, **settings: Any
) -> AsyncIterator[tuple[ReplicaServer, ReplicaServer]]:
    """A target and a draft of their own."""
    common = {"model": str(folder), "listen": LOCAL, "engine": "synthetic"} | settings
    target = ReplicaConfig(**common, synthetic_pass_ms=PassTimes.parse(target_ms))
    draft = DraftConfig(**common, synthetic_pass_ms=PassTimes.parse(DRAFT_MS), synthetic_acceptance=acceptance)
    async with contextlib.AsyncExitStack() as servers:
        started = []
        for role, config in (("target", target), ("draft", draft)):
            started.append(await ReplicaServer.start(role, config))
            servers.push_async_callback(started[-1].stop)
        yield started[0], started[1]


@contextlib.asynccontextmanager
async def system(
    folder: Path, acceptance: float = 0.8, target_ms: str = TARGET_MS, **settings: Any
) -> AsyncIterator[Stack]:
    """With an orchestrator."""
    async with (
        replicas(folder, acceptance, target_ms, **settings) as (target, draft),
        own_stack(target, draft) as stack,
    ):
        yield stack


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 7}], ids=["greedy", "sampled"])
async def test_any_block_length_gives_the_plain_text(farm: Farm, folder: Path, sampling: dict[str, Any]) -> None:
    async with system(folder) as stack:
        plain = await stack.generate(prompt_of(50), 0, max_new_tokens=60, **sampling)
        ways = [stack.generate(prompt_of(50), k, max_new_tokens=60, **sampling) for k in (1, 2, 4, 8, None)]
        assert {tuple(answer.ids) for answer in await asyncio.gather(*ways)} == {tuple(plain.ids)}
        assert len(set(plain.ids)) > 20


async def test_the_first_draft_token_is_right_as_often_as_it_is_told_to(farm: Farm, folder: Path) -> None:
    """Within five standard errors over all rounds that proposed: 1 in 1.7 million is outside."""
    async with system(folder, acceptance=0.6) as stack:
        work = [stack.generate(prompt_of(9, number), 3, max_new_tokens=150) for number in range(8)]
        answers = await asyncio.gather(*work)
        rounds = [stats for answer in answers for stats in answer.rounds if stats.draft_tokens]
        share = sum(stats.num_accepted > 0 for stats in rounds) / len(rounds)
        assert len(rounds) > 400
        assert abs(share - 0.6) < 5 * (0.6 * 0.4 / len(rounds)) ** 0.5


async def test_sure_drafts_are_always_and_hopeless_ones_never_right(farm: Farm, folder: Path) -> None:
    async with system(folder, acceptance=1.0) as stack:
        (await stack.generate(prompt_of(9), 4, max_new_tokens=80)).check_all_accepted()
    async with system(folder, acceptance=0.0) as stack:
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=20)
        assert (answer.finished.speculation.accepted, answer.finished.speculation.rounds) == (0, 20)


async def test_a_cache_for_two_sessions_serves_six(farm: Farm, folder: Path) -> None:
    """Evicted and rebuilt, copied and shared: the text stays, and a sure draft stays right."""
    async with system(folder) as roomy:
        plain = [await roomy.generate(prompt_of(20, i), 0, max_new_tokens=100) for i in range(6)]
    async with system(folder, acceptance=1.0, kv_bytes=NINE_BLOCKS) as stack:
        assert stack.target.replica.facts.kv_capacity_tokens == 288
        pressed = await asyncio.gather(*(stack.generate(prompt_of(20, i), 4, max_new_tokens=100) for i in range(6)))
        assert [answer.ids for answer in pressed] == [answer.ids for answer in plain]
        assert stack.target.replica.engine.sessions.evictions > 0
        for answer in pressed:
            answer.check_all_accepted()


async def test_a_pass_takes_its_time_on_the_wire(farm: Farm, folder: Path) -> None:
    """Never less: 6 ms for a verify of few rows."""
    async with system(folder) as stack:
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=40)
        assert all(stats.verify_us >= 6000 for stats in answer.rounds)


@contextlib.asynccontextmanager
async def far_apart(folder: Path, shape: Shape) -> AsyncIterator[tuple[Stack, Proxy, Proxy]]:
    """A system with a network between the orchestrator and each replica: target's and draft's proxy."""
    async with (
        replicas(folder) as (target, draft),
        Proxy(target.address, shape) as to_target,
        Proxy(draft.address, shape) as to_draft,
        own_stack(
            target,
            draft,
            draft_address=to_draft.address,
            target_address=to_target.address,
            draft_timeout_s=0.3,
            verify_timeout_s=2.0,
        ) as stack,
    ):
        yield stack, to_target, to_draft


async def test_a_network_between_the_services_costs_time_and_no_token(farm: Farm, folder: Path) -> None:
    async with far_apart(folder, Shape(delay_s=0.003, jitter_s=0.001)) as (stack, _, _):
        plain = await stack.generate(prompt_of(20), 0, max_new_tokens=24)
        answer = await stack.generate(prompt_of(20), 4, max_new_tokens=24)
        assert answer.ids == plain.ids
        assert all(stats.verify_us >= 6000 + 6000 for stats in answer.rounds)


async def broken(stack: Stack, harm: Any, heal: Any) -> Answer:
    """An answer in the middle of which something happens to the network, for a moment."""
    answer = Answer()
    async for event in stack.stream(make_request(prompt_of(20), 4, max_new_tokens=80)):
        answer.read(event)
        if len(answer.rounds) == 5 and harm is not None:
            harm()
            harm = None
            asyncio.get_running_loop().call_later(0.5, heal)
    answer.check_books()
    return answer


async def test_a_network_that_breaks_costs_time_and_no_token(farm: Farm, folder: Path) -> None:
    async with far_apart(folder, Shape(delay_s=0.001)) as (stack, to_target, to_draft):
        plain = await stack.generate(prompt_of(20), 0, max_new_tokens=80)
        for proxy in (to_draft, to_target):
            assert (await broken(stack, proxy.cut, lambda: None)).ids == plain.ids
            assert (await broken(stack, proxy.freeze, proxy.thaw)).ids == plain.ids


async def test_a_service_that_is_told_nonsense_ends_with_its_name() -> None:
    service = await spawn("target_service", {"OUTRIDER_MODEL": "m", "OUTRIDER_SYNTHETIC_PASS_MS": "5"})
    code, log = await service.ended()
    assert code == 2
    assert "OUTRIDER_SYNTHETIC_PASS_MS='5.0': needs OUTRIDER_ENGINE=synthetic" in log
