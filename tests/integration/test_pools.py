"""Pools of several replicas: losing any of them never changes a token, and what is new is used."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.member import State
from outrider.v1 import orchestrator_pb2 as pb
from tests.integration.prompts import prompt_of
from tests.integration.test_faults import Plain as Plain
from tests.integration.test_faults import plain, replica_config
from tests.stack import Answer, Farm, ReplicaServer, Stack, make_request, own_stack
from tests.waiting import eventually

__all__ = ["plain"]
TOKENS = 60


@contextlib.asynccontextmanager
async def replicas(role: str, model: Path, count: int) -> AsyncIterator[list[ReplicaServer]]:
    """Replicas of a test's own."""
    made = [await ReplicaServer.start(role, replica_config(model)) for _ in range(count)]
    try:
        yield made
    finally:
        for replica in made:
            await replica.stop()


def addresses(servers: list[ReplicaServer]) -> str:
    return ",".join(server.address for server in servers)


async def all_in_use(stack: Stack, targets: int, drafts: int) -> None:
    def ready() -> bool:
        pools = [stack.pools.targets.members, stack.pools.drafts.members]
        return [sum(m.state is State.READY for m in pool) for pool in pools] == [targets, drafts]

    await eventually(ready, f"{targets} targets and {drafts} drafts are in use")


async def answers(stack: Stack, k: int, count: int, after: int, event: asyncio.Event) -> list[Answer]:
    """Concurrent answers; ``event`` is set when each has ``after`` tokens."""
    far: set[int] = set()

    async def one(number: int) -> Answer:
        answer = Answer()
        request = make_request(prompt_of(9 + number), k, max_new_tokens=TOKENS, temperature=0.8, seed=number)
        async with contextlib.aclosing(stack.stream(request)) as events:
            async for happened in events:
                answer.read(happened)
                if len(answer.ids) >= after:
                    far.add(number)
                if len(far) == count:
                    event.set()
        answer.check_books()
        return answer

    return await asyncio.gather(*(one(number) for number in range(count)))


async def same_as_alone(got: list[Answer], plain: Plain) -> None:
    for number, answer in enumerate(got):
        alone = await plain(prompt_of(9 + number), max_new_tokens=TOKENS, temperature=0.8, seed=number)
        assert answer.ids == alone, f"answer {number}"
        assert not answer.finished.numerics_changed


@pytest.mark.parametrize("k", [0, 3])
async def test_a_target_of_two_is_lost_in_mid_stream(farm: Farm, llama: Path, plain: Plain, k: int) -> None:
    draft = await farm.replica("draft", llama)
    async with replicas("target", llama, 2) as targets:
        stack_of = own_stack(targets[0], draft, target_address=addresses(targets))
        async with stack_of as stack:
            await all_in_use(stack, 2, 1)
            event = asyncio.Event()
            asking = asyncio.create_task(answers(stack, k, 4, 8, event))
            await event.wait()
            lost = max(targets, key=lambda target: target.sessions)
            await lost.server.grpc_server.stop(0)
            await same_as_alone(await asking, plain)
            states = {member.address: member.state for member in stack.pools.targets.members}
            assert states[lost.address] is State.UNAVAILABLE
            await lost.restart()
            await all_in_use(stack, 2, 1)


async def test_a_draft_of_two_is_lost_in_mid_stream(farm: Farm, llama: Path, plain: Plain) -> None:
    """One round at most of each answer is without a guess, and the other draft guesses on."""
    target = await farm.replica("target", llama)
    async with (
        replicas("draft", llama, 2) as drafts,
        own_stack(target, drafts[0], draft_address=addresses(drafts)) as stack,
    ):
        await all_in_use(stack, 1, 2)
        event = asyncio.Event()
        asking = asyncio.create_task(answers(stack, 3, 4, 8, event))
        await event.wait()
        lost = max(drafts, key=lambda draft: draft.sessions)
        await lost.server.grpc_server.stop(0)
        got = await asking
        await same_as_alone(got, plain)
        for answer in got:
            assert answer.finished.speculation.draft_faults <= 1
            assert answer.rounds[-2].draft_tokens, "it guesses again"
        await lost.restart()


async def test_all_are_listed_and_a_new_one_gets_sessions(farm: Farm, llama: Path) -> None:
    draft = await farm.replica("draft", llama)
    async with replicas("target", llama, 2) as targets, own_stack(targets[0], draft) as stack:
        await stack.pools.targets.set(server.address for server in targets)
        await all_in_use(stack, 2, 1)
        info = await stack.info()
        assert {status.address for status in info.targets} == {server.address for server in targets}
        assert [status.state for status in info.targets] == [pb.REPLICA_STATE_READY] * 2
        assert [status.address for status in info.drafts] == [draft.address]
        asking = asyncio.create_task(answers(stack, 0, 6, TOKENS, asyncio.Event()))
        await eventually(lambda: all(m.streams for m in stack.pools.targets.members), "both have sessions")
        await asking


async def test_a_session_stays_with_its_replicas_over_turns(farm: Farm, llama: Path) -> None:
    """What the second turn finds cached is all of the first, whichever replica that was."""
    draft = await farm.replica("draft", llama)
    async with (
        replicas("target", llama, 2) as targets,
        own_stack(targets[0], draft, target_address=addresses(targets)) as stack,
    ):
        await all_in_use(stack, 2, 1)
        for number in range(3):
            first = await stack.generate(prompt_of(20 + number), 0, max_new_tokens=10, keep_session=True)
            more = make_request([5, 6, 7], 0, max_new_tokens=4, session_id=first.session_id)
            again = await stack.ask(more)
            assert again.finished.usage.cached_prompt_tokens >= 29 + number
