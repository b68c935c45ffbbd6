"""Promise 3: trouble costs time, never a token; and whatever ends a request, nothing of it stays behind."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from orchestrator.member import Member, State
from outrider.errors import InvalidArgument, ResourceExhausted, Unavailable
from outrider.inference.model import ModelRunner
from outrider.replica_config import ReplicaConfig
from outrider.status import from_rpc_error
from outrider.v1 import draft_pb2
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub
from outrider.wire import facts_to_pb
from tests.fakes import (
    BrokenRunner,
    PoisonedRunner,
    Script,
    ScriptedDraft,
    SlowRunner,
    after,
    always,
    block,
    failing,
    miss,
    serving,
)
from tests.integration.prompts import prompt_of
from tests.stack import (
    LOCAL,
    Answer,
    Farm,
    ReplicaServer,
    Stack,
    make_request,
    own_stack,
    start_orchestrator,
)
from tests.tiny import VOCABULARY
from tests.waiting import eventually

NAN, INF = float("nan"), float("inf")


def replica_config(model: Path) -> ReplicaConfig:
    return ReplicaConfig(model=str(model), listen=LOCAL, dtype="float32", kv_bytes=32 << 20, threads=1)


@contextlib.asynccontextmanager
async def scripted(
    farm: Farm, llama: Path, script: Script, **settings: Any
) -> AsyncIterator[tuple[Stack, ScriptedDraft]]:
    """A system whose draft answers by a script."""
    target = await farm.replica("target", llama)
    fake = ScriptedDraft(facts_to_pb(target.replica.facts), script)
    async with serving(fake) as address, own_stack(target, draft_address=address, **settings) as stack:
        await stack.draft_is(State.READY)
        yield stack, fake


@pytest.fixture
async def plain(farm: Farm, llama: Path) -> Callable[..., Awaitable[list[int]]]:
    """The tokens that every test here must see."""
    stack = await farm.stack(llama)

    async def ids(prompt: list[int], **fields: Any) -> list[int]:
        return (await stack.generate(prompt, 0, **fields)).ids

    return ids


Plain = Callable[..., Awaitable[list[int]]]


def _in_use(member: Member, replica: ReplicaServer) -> bool:
    """Whether this very process is known and used."""
    known = member.facts is not None and member.facts.incarnation == replica.replica.facts.incarnation
    return known and member.state is State.READY


JUNK: dict[str, Script] = {
    "too late": after(5.0, [5]),
    "dies": failing(RuntimeError("draft bug")),
    "goes away": failing(Unavailable("going")),
    "is full": failing(ResourceExhausted("no room")),
    "complains": failing(InvalidArgument("tokens", "I do not like them")),
    "ids outside the vocabulary": always(block([VOCABULARY + 100])),
    "largest id": always(block([2**32 - 1])),
    "wrong round": always(block([5], round=4711)),
    "too many tokens": always(block([5] * 12)),
    "stale incarnation": always(block([5], incarnation=1)),
    "impossible cached length": always(block([5], cached_len=10**6)),
    "no outcome": always(draft_pb2.ProposeResponse()),
    "misses for ever": always(miss(0)),
    "misses absurdly": always(miss(10**6)),
}


@pytest.mark.parametrize("name", JUNK)
async def test_a_lying_draft_costs_no_token(farm: Farm, llama: Path, plain: Plain, name: str) -> None:
    """Whatever the draft answers, the tokens are the target's; the fault is counted, and nothing of it verified."""
    async with scripted(farm, llama, JUNK[name], draft_timeout_s=0.2) as (stack, fake):
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=24)
        assert answer.ids == await plain(prompt_of(9), max_new_tokens=24)
        assert answer.finished.speculation.draft_faults > 0
        assert answer.finished.speculation.proposed == 0
        assert fake.requests


async def test_wrong_guesses_are_no_fault(farm: Farm, llama: Path, plain: Plain) -> None:
    """A draft that is always wrong is slow, and nothing else."""
    ids = await plain(prompt_of(9), max_new_tokens=24)

    async def second_best(request: draft_pb2.ProposeRequest) -> draft_pb2.ProposeResponse:
        position = request.prefix_len + len(request.tokens) - 9
        return block([(ids[position] + 1) % VOCABULARY] * request.max_draft_tokens)

    async with scripted(farm, llama, second_best) as (stack, _):
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=24)
        assert answer.ids == ids
        assert answer.finished.speculation.accepted == 0
        assert answer.finished.speculation.draft_faults == 0
        assert answer.finished.speculation.proposed > 0


async def test_a_draft_fails_in_the_middle_and_comes_back(farm: Farm, llama: Path, plain: Plain) -> None:
    """Right, then silent, then right again: faults in between, and proposals after it recovers."""
    ids = await plain(prompt_of(9), max_new_tokens=24)
    silent = False

    async def moody(request: draft_pb2.ProposeRequest) -> draft_pb2.ProposeResponse:
        if silent and not request.session_id:
            await asyncio.Event().wait()
        position = request.prefix_len + len(request.tokens) - 9
        return block(ids[position : position + request.max_draft_tokens])

    async with scripted(farm, llama, moody, draft_timeout_s=0.2) as (stack, _):
        assert (await stack.generate(prompt_of(9), 4, max_new_tokens=24)).finished.speculation.draft_faults == 0
        silent = True
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=24)
        assert answer.ids == ids
        assert answer.rounds[0].num_accepted == 4
        assert answer.finished.speculation.draft_faults > 0
        silent = False
        await stack.draft_is(State.READY)
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=24)
        assert answer.ids == ids
        assert answer.finished.speculation.draft_faults == 0
        answer.check_all_accepted()


async def test_a_draft_that_is_not_there(farm: Farm, llama: Path, plain: Plain) -> None:
    """Nobody listens at the draft's address: answered at once, target-only, and GetInfo says why."""
    target = await farm.replica("target", llama)
    async with own_stack(target, draft_address="127.0.0.1:1") as stack:
        for k in (None, 4):
            answer = await stack.generate(prompt_of(9), k)
            assert answer.ids == await plain(prompt_of(9))
            summary = answer.finished.speculation
            assert summary.draft_faults == summary.rounds - 1  # the last round has no token left to guess
        await eventually(lambda: "asked" not in stack.draft_member.reason, "the draft was tried")
        info = await stack.info()
        assert info.draft.state == pb.REPLICA_STATE_UNAVAILABLE
        assert info.draft.reason


async def restarting(stack: Stack, request: pb.GenerateRequest, victim: ReplicaServer, after_tokens: int) -> Answer:
    """An answer in whose middle a replica is stopped at once and started again."""
    answer = Answer()
    restart: asyncio.Task[None] | None = None
    async for event in stack.stream(request):
        answer.read(event)
        if restart is None and len(answer.ids) >= after_tokens:
            restart = asyncio.create_task(victim.restart())
    assert restart is not None
    await restart
    answer.check_books()
    return answer


async def test_the_draft_restarts_in_mid_stream(farm: Farm, llama: Path, plain: Plain) -> None:
    """The stream goes on without it; afterwards it is found again, with its new incarnation."""
    draft = await ReplicaServer.start("draft", replica_config(llama))
    before = draft.replica.facts.incarnation
    try:
        async with own_stack(await farm.replica("target", llama), draft) as stack:
            request = make_request(prompt_of(9), 4, max_new_tokens=200)
            answer = await restarting(stack, request, draft, after_tokens=20)
            assert answer.ids == await plain(prompt_of(9), max_new_tokens=200)
            assert draft.replica.facts.incarnation != before
            await eventually(
                lambda: _in_use(stack.draft_member, draft),
                "the new draft is known",
            )
            again = await stack.generate(prompt_of(9), 4, max_new_tokens=40)
            assert again.finished.speculation.draft_faults == 0
            again.check_all_accepted()
    finally:
        await draft.stop()


@pytest.mark.parametrize("k", [0, 4])
async def test_the_target_restarts_in_mid_stream(farm: Farm, llama: Path, plain: Plain, k: int) -> None:
    """A pause, then the same tokens: the list in the orchestrator is the truth."""
    draft = await farm.replica("draft", llama)
    target = await ReplicaServer.start("target", replica_config(llama))
    try:
        async with own_stack(target, draft) as stack:
            request = make_request(prompt_of(9), k, max_new_tokens=120, temperature=0.8, seed=3)
            answer = await restarting(stack, request, target, after_tokens=20)
            assert answer.ids == await plain(prompt_of(9), max_new_tokens=120, temperature=0.8, seed=3)
    finally:
        await target.stop()


async def test_a_target_that_stays_away_ends_the_request(farm: Farm, llama: Path) -> None:
    """Patience is bounded: UNAVAILABLE with a hint when to retry; new requests are told at once or in time."""
    target = await ReplicaServer.start("target", replica_config(llama))
    stack = await start_orchestrator(target, None, target_patience_s=0.5)
    try:
        seen = 0
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for event in stack.stream(make_request(prompt_of(9), 0, max_new_tokens=500)):
                seen += len(event.delta.token_ids)
                if seen == 10:
                    await target.stop()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        error = await stack.fails(make_request(prompt_of(9)), within_s=10)
        assert error.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        await stack.close()
        await target.stop()


async def test_a_target_that_hangs_is_asked_again(farm: Farm, llama: Path, plain: Plain) -> None:
    """A verdict that does not come in time: the round is sent again, and a late result cannot get in."""
    runners: list[SlowRunner] = []

    def slow(inner: ModelRunner) -> SlowRunner:
        runners.append(SlowRunner(inner))
        return runners[0]

    target = ReplicaServer.start("target", replica_config(llama), slow)
    async with own_stack(target, await farm.replica("draft", llama), verify_timeout_s=0.4) as stack:
        answer = Answer()
        async for event in stack.stream(make_request(prompt_of(9), 4, max_new_tokens=60)):
            answer.read(event)
            if len(answer.ids) in range(10, 16):
                runners[0].delays = [1.0]
        answer.check_books()
        assert answer.ids == await plain(prompt_of(9), max_new_tokens=60)


POISONS = {"nan row": (NAN, True), "one nan": (NAN, False), "one inf": (INF, False), "all -inf": (-INF, True)}


def poisoned(name: str, first: int) -> Callable[[ModelRunner], PoisonedRunner]:
    value, whole_row = POISONS[name]
    return lambda inner: PoisonedRunner(inner, first, value, whole_row)


@pytest.mark.parametrize("name", POISONS)
async def test_bad_logits_of_the_target_fail_one_request(
    llama: Path, plain: Plain, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The request with the bad row ends with INTERNAL and says why; its batch mates do not notice."""
    target = ReplicaServer.start("target", replica_config(llama), poisoned(name, first=105))
    async with own_stack(target) as stack:
        mates = [asyncio.create_task(stack.generate(prompt_of(9 + i, i), max_new_tokens=40)) for i in range(3)]
        error = await stack.fails(make_request(prompt_of(100), max_new_tokens=40))
        assert error.code() is grpc.StatusCode.INTERNAL
        assert "finite" in (error.details() or "")
        assert type(from_rpc_error(error)).__name__ == "NonFiniteLogits"
        for i, mate in enumerate(mates):
            assert (await mate).ids == await plain(prompt_of(9 + i, i), max_new_tokens=40)


@pytest.mark.parametrize("name", POISONS)
async def test_bad_logits_of_the_draft_mean_no_proposal(farm: Farm, llama: Path, plain: Plain, name: str) -> None:
    """From a position on the draft has no opinion; the tokens are the plain ones."""
    draft = await ReplicaServer.start("draft", replica_config(llama), poisoned(name, first=25))
    try:
        async with own_stack(await farm.replica("target", llama), draft) as stack:
            for sampling in ({"temperature": 0.0}, {"temperature": 0.8, "seed": 4}):
                answer = await stack.generate(prompt_of(9), 4, max_new_tokens=40, **sampling)
                assert answer.ids == await plain(prompt_of(9), max_new_tokens=40, **sampling)
                assert 0 < answer.finished.speculation.proposed <= 17
                answer.check_all_accepted()
    finally:
        await draft.stop()


async def test_a_failed_pass_fails_its_rounds_and_no_more(llama: Path, plain: Plain) -> None:
    """An exception in a forward pass ends the requests in it with INTERNAL; the next one is served."""
    runners: list[BrokenRunner] = []

    def breakable(inner: ModelRunner) -> BrokenRunner:
        runners.append(BrokenRunner(inner))
        return runners[0]

    async with own_stack(ReplicaServer.start("target", replica_config(llama), breakable)) as stack:
        runners[0].broken = True
        error = await stack.fails(make_request(prompt_of(9)))
        assert error.code() is grpc.StatusCode.INTERNAL
        runners[0].broken = False
        assert (await stack.generate(prompt_of(9))).ids == await plain(prompt_of(9))


async def test_a_deadline_passes(farm: Farm, llama: Path) -> None:
    """DEADLINE_EXCEEDED after partial text, and the work stops in both services."""
    runners: list[SlowRunner] = []

    def slow(inner: ModelRunner) -> SlowRunner:
        runners.append(SlowRunner(inner))
        return runners[0]

    target = ReplicaServer.start("target", replica_config(llama), slow)
    async with own_stack(target, await farm.replica("draft", llama)) as stack:
        runners[0].always_s = 0.03
        seen: list[int] = []
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for event in stack.stream(make_request(prompt_of(9), 2, max_new_tokens=1000), within_s=0.8):
                seen.extend(event.delta.token_ids)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert seen
        assert stack.draft_member.state is State.READY
        assert stack.target_member.state is State.READY


async def test_one_answer_per_session_at_a_time(farm: Farm, llama: Path, plain: Plain) -> None:
    """A second request on a busy session is ABORTED; the first does not notice, and the session goes on."""
    stack = await farm.stack(llama, llama)
    first = await stack.generate(prompt_of(9), 4, max_new_tokens=10, keep_session=True)
    request = make_request(prompt_of(3, 1), 4, max_new_tokens=100, session_id=first.session_id, keep_session=True)
    second = Answer()
    async for event in stack.stream(request):
        if not second.ids:
            error = await stack.fails(make_request([5], session_id=first.session_id))
            assert error.code() is grpc.StatusCode.ABORTED
        second.read(event)
    history = [*prompt_of(9), *first.ids, *prompt_of(3, 1)]
    assert second.ids == await plain(history, max_new_tokens=100)
    last = await stack.generate([5], 4, max_new_tokens=5, session_id=first.session_id)
    assert last.ids == await plain([*history, *second.ids, 5], max_new_tokens=5)


async def test_a_cancelled_turn_leaves_the_session_as_it_was(farm: Farm, llama: Path, plain: Plain) -> None:
    """The next turn continues from the last complete one."""
    stack = await farm.stack(llama, llama)
    first = await stack.generate(prompt_of(9), 4, max_new_tokens=10, keep_session=True)
    keeping = {"session_id": first.session_id, "keep_session": True}
    async for event in stack.stream(make_request(prompt_of(3, 1), 4, max_new_tokens=100, **keeping)):
        if len(event.delta.token_ids) > 1:
            break
    await eventually(lambda: not stack.service._door.inside, "the cancelled turn has ended")
    again = await stack.generate(prompt_of(4, 2), 4, max_new_tokens=12, session_id=first.session_id)
    assert again.ids == await plain([*prompt_of(9), *first.ids, *prompt_of(4, 2)], max_new_tokens=12)


async def cancelled_after(stack: Stack, request: pb.GenerateRequest, seconds: float) -> Answer | None:
    """The answer, or None when it was not complete in time and was cancelled."""
    task = asyncio.create_task(stack.ask(request))
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if done:
        return task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return None


async def test_two_hundred_requests_half_of_them_cancelled(
    farm: Farm, llama: Path, good_draft: Path, plain: Plain, caplog: pytest.LogCaptureFixture
) -> None:
    """Cancelled before the first token, during prefill and in the middle: all that is left is right and complete."""
    stack = await farm.stack(llama, good_draft)
    dice = random.Random(20)
    prompts = [prompt_of(dice.choice((1, 5, 30, 300, 600)), i) for i in range(10)]
    expected = [await plain(prompt, max_new_tokens=12, seed=1, temperature=0.8) for prompt in prompts]
    caplog.set_level(logging.WARNING)
    work = []
    for i in range(200):
        request = make_request(prompts[i % 10], dice.choice((0, 2, 4)), max_new_tokens=12, seed=1, temperature=0.8)
        work.append(cancelled_after(stack, request, dice.choice((0.0, dice.random() * 0.3)) if i % 2 else 120.0))
    answers = await asyncio.gather(*work)
    for i, answer in enumerate(answers):
        assert answer is None or answer.ids == expected[i % 10]
        assert i % 2 or answer is not None
    assert sum(answer is None for answer in answers) > 50
    await stack.settled()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_cancel_and_retry_leaves_bystanders_alone(farm: Farm, llama: Path, good_draft: Path) -> None:
    """Six streams share a prefix; two are cancelled, retried and joined by new ones; everybody's ids stay the same."""
    stack = await farm.stack(llama, good_draft)
    prompts = [[*prompt_of(128), *prompt_of(1 + i, i)] for i in range(8)]
    wishes: list[dict[str, Any]] = [{"temperature": 0.8 * (i % 2), "seed": i, "max_new_tokens": 24} for i in range(8)]
    solo = [(await stack.generate(prompts[i], 0, **wishes[i])).ids for i in range(8)]
    for turn in range(4):
        bystanders = [asyncio.create_task(stack.generate(prompts[i], 4, **wishes[i])) for i in range(4)]
        for victim, seconds in ((4, 0.015), (5, 0.019)):
            await cancelled_after(stack, make_request(prompts[victim], 4, **wishes[victim]), seconds * (1 + turn))
        late = [asyncio.create_task(stack.generate(prompts[i], 4, **wishes[i])) for i in range(4, 8)]
        answers = await asyncio.gather(*bystanders, *late)
        assert [answer.ids for answer in answers] == solo


async def test_a_round_really_carries_many_sessions(llama: Path) -> None:
    """The concurrency tests mean something only if passes are shared."""
    runners: list[SlowRunner] = []

    def counting(inner: ModelRunner) -> SlowRunner:
        runners.append(SlowRunner(inner))
        return runners[0]

    async with own_stack(ReplicaServer.start("target", replica_config(llama), counting)) as stack:
        runners[0].always_s = 0.005
        await asyncio.gather(*(stack.generate(prompt_of(5, i), max_new_tokens=20) for i in range(8)))
        assert max(runners[0].row_counts) >= 8
        assert sum(runners[0].row_counts) / len(runners[0].row_counts) > 4


async def test_a_client_that_does_not_read_holds_up_itself_only_and_is_given_up(
    farm: Farm, llama: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a window of a few bytes its answer stands still; a neighbour is answered, and then its place is free."""
    target = await farm.replica("target", llama)
    async with own_stack(target, client_stall_s=0.5) as stack:
        sweeping = asyncio.create_task(stack.service.sweep(0.05))
        window = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{stack.server.port}", options=window) as channel:
            request = make_request([5], 0, max_new_tokens=20_000, logprobs=True)
            call = OrchestratorServiceStub(channel).Generate(request, timeout=60)
            await call.read()
            await eventually(lambda: stack.service._readers._since, "nothing more can be handed over")
            neighbour = await stack.generate([5], 0)
            assert len(neighbour.ids) == 32
            await eventually(lambda: "has not read" in caplog.text, "it is given up")
            await eventually(lambda: not stack.service._door.inside, "its place is free")
            call.cancel()
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
