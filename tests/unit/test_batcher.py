"""One thread owns the engine; what is awaited on the loop arrives, is cancelled, or ends with the thread."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import torch

from draft_service.drafter import Propose
from draft_service.look_ahead import LookAhead
from outrider.errors import InvalidArgument, Unavailable
from outrider.inference.batcher import Asked, Batcher
from outrider.inference.engine import Engine
from outrider.inference.packed import PackedPass
from outrider.inference.program import Done, More
from outrider.inference.stream import Stream
from outrider.sampling import SamplingParams
from tests.unit.scripted import VOCAB, ScriptedRunner, Steps, claim_of, continuation, next_token
from tests.waiting import eventually

PROMPT = (3, 1, 4, 1, 5)
FOR_EVER = 150


class Watched(ScriptedRunner):
    """Notes the threads that compute; ``gate`` holds passes back while it is cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()

    def forward(self, plan: PackedPass) -> torch.Tensor:
        self.threads.add(threading.get_ident())
        assert self.gate.wait(10)
        return super().forward(plan)


@contextlib.asynccontextmanager
async def started(runner: ScriptedRunner) -> AsyncIterator[tuple[Batcher, Engine]]:
    batcher = Batcher()
    try:
        yield batcher, await batcher.start(lambda: Engine(runner))
    finally:
        batcher.close()


async def test_everything_runs_on_one_thread_that_is_not_the_loops() -> None:
    runner, built = Watched(), set()

    def build() -> Engine:
        built.add(threading.get_ident())
        return Engine(runner)

    batcher = Batcher()
    await batcher.start(build)
    await asyncio.gather(*(batcher.run(Asked(str(i), claim_of([i, *PROMPT]), Steps(growth=3))) for i in range(8)))
    called = {await batcher.call(threading.get_ident)}
    batcher.close()
    assert built == called == runner.threads
    assert threading.get_ident() not in built


async def test_concurrent_rounds_all_get_their_own_answer() -> None:
    async with started(ScriptedRunner()) as (batcher, _):
        prompts = [[i, *PROMPT] for i in range(12)]
        rounds = (batcher.run(Asked(str(i), claim_of(p), Steps(growth=2))) for i, p in enumerate(prompts))
        outcomes = await asyncio.gather(*rounds)
    assert [outcome.result for outcome in outcomes] == [continuation(prompt, 3) for prompt in prompts]


async def test_the_loop_is_free_while_a_pass_runs() -> None:
    runner = Watched()
    async with started(runner) as (batcher, _):
        runner.gate.clear()
        waiting = asyncio.create_task(batcher.run(Asked("a", claim_of(PROMPT), Steps())))
        await eventually(lambda: runner.threads, "a pass has run")
        assert not waiting.done()
        runner.gate.set()
        assert (await waiting).result == [next_token(PROMPT)]


async def test_cancelling_the_wait_cancels_the_round_and_frees_its_session() -> None:
    runner = Watched()
    async with started(runner) as (batcher, engine):
        waiting = asyncio.create_task(batcher.run(Asked("a", claim_of(PROMPT), Steps(growth=FOR_EVER))))
        await eventually(lambda: runner.passes, "a pass has run")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await eventually(lambda: engine.idle, "the engine is idle")
        assert await batcher.call(lambda: (len(engine.sessions), engine.pool.held)) == (0, 0)
    assert len(runner.passes) < FOR_EVER


async def test_errors_of_the_engine_arrive_at_the_caller() -> None:
    async with started(ScriptedRunner(max_positions=3)) as (batcher, _):
        with pytest.raises(InvalidArgument, match="tokens"):
            await batcher.run(Asked("a", claim_of(PROMPT), Steps()))


class Broken:
    """A program with a bug."""

    tail: Sequence[int] = ()
    growth = 0

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done:
        raise ZeroDivisionError("a bug")


async def test_a_bug_in_a_program_arrives_and_the_thread_goes_on() -> None:
    async with started(ScriptedRunner()) as (batcher, _):
        with pytest.raises(ZeroDivisionError, match="a bug"):
            await batcher.run(Asked("a", claim_of(PROMPT), Broken()))
        assert (await batcher.run(Asked("a", claim_of(PROMPT), Steps()))).result == [next_token(PROMPT)]


async def test_errors_of_called_functions_arrive() -> None:
    def fail() -> None:
        raise KeyError("k")

    async with started(ScriptedRunner()) as (batcher, _):
        with pytest.raises(KeyError):
            await batcher.call(fail)


async def test_a_model_that_cannot_be_built_raises_from_start() -> None:
    def build() -> Engine:
        raise FileNotFoundError("no such model")

    batcher = Batcher()
    with pytest.raises(FileNotFoundError, match="no such model"):
        await batcher.start(build)
    batcher.close()


async def test_close_ends_waiting_rounds_with_unavailable_and_joins_the_thread() -> None:
    runner = Watched()
    batcher = Batcher()
    await batcher.start(lambda: Engine(runner))
    waiting = [asyncio.create_task(batcher.run(Asked(n, claim_of(PROMPT), Steps(growth=FOR_EVER)))) for n in "ab"]
    await eventually(lambda: runner.passes, "a pass has run")
    batcher.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable, Unavailable]
    assert not batcher._thread.is_alive()


async def test_after_close_everything_is_unavailable() -> None:
    async with started(ScriptedRunner()) as (batcher, _):
        pass
    with pytest.raises(Unavailable, match="stopped"):
        await batcher.run(Asked("a", claim_of(PROMPT), Steps()))
    with pytest.raises(Unavailable, match="stopped"):
        await batcher.release("a")


async def test_a_round_before_the_model_is_loaded_is_unavailable_and_harms_nothing() -> None:
    loading = threading.Event()

    def build() -> Engine:
        assert loading.wait(10)
        return Engine(ScriptedRunner())

    batcher = Batcher()
    start = asyncio.create_task(batcher.start(build))
    await asyncio.sleep(0)
    early = asyncio.create_task(batcher.run(Asked("a", claim_of(PROMPT), Steps())))
    await asyncio.sleep(0)
    loading.set()
    with pytest.raises(Unavailable, match="loading"):
        await asyncio.wait_for(early, 10)
    await start
    assert (await asyncio.wait_for(batcher.run(Asked("a", claim_of(PROMPT), Steps())), 10)).result == [
        next_token(PROMPT)
    ]
    batcher.close()


async def test_release_tells_whether_the_session_was_known() -> None:
    async with started(ScriptedRunner()) as (batcher, engine):
        await batcher.run(Asked("a", claim_of(PROMPT), Steps()))
        assert await batcher.release("a") is True
        assert await batcher.release("a") is False
        assert engine.pool.held == 0


async def test_a_call_whose_caller_has_gone_is_no_error_on_the_loop() -> None:
    """The answer to a cancelled call has nowhere to go; that must not end as an unhandled error of the loop."""
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: unhandled.append(problem))
    begun, gate = threading.Event(), threading.Event()
    async with started(ScriptedRunner()) as (batcher, _):

        def hold() -> None:
            begun.set()
            gate.wait(10)

        waiting = asyncio.create_task(batcher.call(hold))
        await eventually(begun.is_set, "the thread is in the call")
        waiting.cancel()
        gate.set()
        await batcher.call(lambda: None)
        await asyncio.sleep(0)
    assert unhandled == []


async def test_idle_sessions_age_out_although_other_sessions_keep_the_engine_busy() -> None:
    """Design I5: expiry must not wait for a quiet moment that a loaded replica never has."""
    now = [0.0]
    runner = ScriptedRunner(num_blocks=1000, max_positions=100_000)
    batcher = Batcher()
    engine = await batcher.start(lambda: Engine(runner, clock=lambda: now[0]))
    await batcher.run(Asked("old", claim_of(PROMPT), Steps()))
    busy = asyncio.create_task(batcher.run(Asked("busy", claim_of(PROMPT), Steps(growth=3000))))
    await eventually(lambda: len(runner.passes) > 3, "it is busy")
    now[0] = 1e6
    await eventually(lambda: engine.sessions.get("old") is None or busy.done(), "the idle session has aged out")
    gone, still_busy = await batcher.call(lambda: engine.sessions.get("old")) is None, not busy.done()
    batcher.close()
    await asyncio.gather(busy, return_exceptions=True)
    assert still_busy
    assert gone


async def test_a_session_that_waits_for_room_starts_when_the_stream_in_its_way_ends() -> None:
    """While nothing can run the thread sleeps; the end of a stream wakes it."""
    runner = ScriptedRunner(num_blocks=4)
    async with started(runner) as (batcher, engine):
        first, second = Stream(), Stream()
        await batcher.run(Asked("a", claim_of([1] * 12), Steps(), stream=first))
        waiting = asyncio.create_task(batcher.run(Asked("b", claim_of([2] * 12), Steps(), stream=second)))
        await eventually(lambda: second.waiting_since is not None, "it waits for memory")
        assert not waiting.done()
        batcher.end(first)
        assert (await asyncio.wait_for(waiting, 10)).result == [next_token([2] * 12)]
        assert engine.sessions.get("a") is None


async def test_a_look_ahead_that_nobody_waits_for_leaves_its_work_until_the_stream_ends() -> None:
    """Cancelling stops it after the pass that runs; the branch that the next round names goes on, the rest is freed."""
    runner = Watched()
    params = SamplingParams()
    async with started(runner) as (batcher, engine):
        stream = Stream()

        async def look_ahead() -> None:
            program = LookAhead(params, (7,), (0, 2), FOR_EVER, VOCAB, limit=200)
            await batcher.run(Asked("a", claim_of(PROMPT), program, stream=stream, optional=True))

        waiting = asyncio.create_task(look_ahead())
        await eventually(lambda: len(runner.passes) > 4, "it is busy")
        waiting.cancel()
        await asyncio.wait({waiting})
        await eventually(lambda: engine.idle, "the engine is idle")
        branches = await batcher.call(engine.sessions.branches)
        path = branches[0].log.tokens[: len(PROMPT) + 2]
        outcome = await batcher.run(Asked("a", claim_of(path, len(PROMPT)), Propose(params, 2, VOCAB), stream=stream))
        assert outcome.result == tuple(continuation(path, 2))
        assert outcome.timings.passes == 0
        await batcher.run(Asked("a", claim_of(PROMPT), LookAhead(params, (), (2,), 2, VOCAB, 200), None, stream, True))
        assert len(await batcher.call(engine.sessions.branches)) == 2
        batcher.end(stream)
        assert await batcher.call(engine.sessions.branches) == []
    assert len(runner.passes) < FOR_EVER


async def test_ending_a_stream_of_a_closed_batcher_is_nothing() -> None:
    async with started(ScriptedRunner()) as (batcher, _):
        pass
    stream = Stream()
    batcher.end(stream)
    assert not stream.open
