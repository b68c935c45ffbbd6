"""Bad input is refused by name, at once, and harms nobody else (design I4, I5)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc, orchestrator_pb2_grpc, target_pb2, target_pb2_grpc
from outrider.v1 import orchestrator_pb2 as pb
from tests.integration.prompts import prompt_of
from tests.stack import Answer, Farm, ReplicaServer, Stack, make_request
from tests.tiny import VOCABULARY
from tests.waiting import eventually

NAN, INF = float("nan"), float("inf")


@pytest.fixture
async def stack(farm: Farm, llama: Path) -> Stack:
    return await farm.stack(llama, llama)


def field_of(error: grpc.aio.AioRpcError, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT) -> str:
    """The field that an error with this code names in its BadRequest detail."""
    assert error.code() is code, error.details()
    status = rpc_status.from_call(error)
    assert status is not None
    for box in status.details:
        bad = error_details_pb2.BadRequest()
        if box.Unpack(bad):
            (violation,) = bad.field_violations
            assert violation.description.startswith(violation.field)
            return str(violation.field)
    raise AssertionError(f"no BadRequest in {error.details()}")


def with_unknown_field() -> pb.GenerateRequest:
    """A request of a later protocol: field 99, a varint."""
    return pb.GenerateRequest.FromString(make_request([5, 6]).SerializeToString() + b"\x98\x06\x01")


def fixed(draft_tokens: int, mode: Any = pb.SPECULATION_MODE_FIXED) -> pb.GenerateRequest:
    request = make_request([5, 6])
    request.speculation.CopyFrom(pb.Speculation(mode=mode, draft_tokens=draft_tokens))
    return request


BAD: dict[str, tuple[str, pb.GenerateRequest]] = {
    "empty prompt": ("prompt", make_request("")),
    "no input": ("input", pb.GenerateRequest()),
    "no ids": ("token_ids.ids", make_request([])),
    "id one too large": ("token_ids.ids[1]", make_request([5, VOCABULARY])),
    "largest id": ("token_ids.ids[0]", make_request([2**32 - 1])),
    "prompt of ids too long": ("token_ids", make_request(prompt_of(2100))),
    "prompt too long": ("prompt", make_request("many words " * 1000)),
    "chat too long": ("chat", make_request(pb.Chat(messages=[pb.ChatMessage(role="user", content="x " * 3000)]))),
    "empty chat": ("chat.messages", make_request(pb.Chat())),
    "chat without a role": ("chat.messages[0].role", make_request(pb.Chat(messages=[pb.ChatMessage(content="x")]))),
    "temperature nan": ("sampling.temperature", make_request([5], temperature=NAN)),
    "temperature inf": ("sampling.temperature", make_request([5], temperature=INF)),
    "temperature negative": ("sampling.temperature", make_request([5], temperature=-1.0)),
    "temperature huge": ("sampling.temperature", make_request([5], temperature=1e30)),
    "temperature tiny": ("sampling.temperature", make_request([5], temperature=1e-12)),
    "temperature denormal": ("sampling.temperature", make_request([5], temperature=1e-38)),
    "top_p 0": ("sampling.top_p", make_request([5], top_p=0.0)),
    "top_p negative": ("sampling.top_p", make_request([5], top_p=-1.0)),
    "top_p above 1": ("sampling.top_p", make_request([5], top_p=1.5)),
    "top_p nan": ("sampling.top_p", make_request([5], top_p=NAN)),
    "top_k negative": ("sampling.top_k", make_request([5], top_k=-1)),
    "min_p above 1": ("sampling.min_p", make_request([5], min_p=2.0)),
    "min_p negative": ("sampling.min_p", make_request([5], min_p=-0.1)),
    "min_p nan": ("sampling.min_p", make_request([5], min_p=NAN)),
    "k negative": ("speculation.draft_tokens", fixed(-1)),
    "k zero in FIXED": ("speculation.draft_tokens", fixed(0)),
    "k too large": ("speculation.draft_tokens", fixed(17)),
    "k in OFF": ("speculation.draft_tokens", fixed(2, pb.SPECULATION_MODE_OFF)),
    "k in AUTO": ("speculation.draft_tokens", fixed(2, pb.SPECULATION_MODE_AUTO)),
    "unknown mode": ("speculation.mode", fixed(0, 9)),
    "session id too long": ("session_id", make_request([5], session_id="x" * 129)),
    "n of 2": ("n", make_request([5], n=2)),
    "resume nothing": ("session_id", make_request([5], resume_from=3)),
    "resume otherwise": ("token_ids", make_request([5], resume_from=3, session_id="s")),
    "resume without a journal": ("resume_from", pb.GenerateRequest(resume_from=0, session_id="s")),
    "no new tokens": ("max_new_tokens", make_request([5], max_new_tokens=0)),
    "negative new tokens": ("max_new_tokens", make_request([5], max_new_tokens=-1)),
    "17 stops": ("stop", make_request([5], stop=[str(i) for i in range(17)])),
    "empty stop": ("stop[1]", make_request([5], stop=["a", ""])),
    "stop too long": ("stop[0]", make_request([5], stop=["x" * 257])),
    "65 stop ids": ("stop_token_ids", make_request([5], stop_token_ids=list(range(65)))),
    "stop id outside": ("stop_token_ids[0]", make_request([5], stop_token_ids=[VOCABULARY])),
    "unknown field": ("request", with_unknown_field()),
}


async def beside(stack: Stack, work: Any, tokens: int = 400) -> list[Answer]:
    """The answers of a neighbour, one after another without a pause from before ``work`` begins until it is done."""
    running, over = asyncio.Event(), asyncio.Event()

    async def answer() -> Answer:
        answer = Answer()
        async for event in stack.stream(make_request(prompt_of(9), 4, max_new_tokens=tokens)):
            answer.read(event)
            if answer.ids:
                running.set()
        return answer

    async def neighbour() -> list[Answer]:
        answers = [await answer()]
        while not over.is_set():
            answers.append(await answer())
        return answers

    task = asyncio.create_task(neighbour())
    try:
        await running.wait()
        await work
    finally:
        over.set()
        neighbours = await task
    return neighbours


async def test_a_session_of_nobody_and_one_of_another_tenant_are_not_found_alike(stack: Stack) -> None:
    """Whoever tries ids learns nothing of those that exist."""
    kept = await stack.generate([5, 6], tenant="a", keep_session=True, max_new_tokens=5)
    errors = [
        await stack.fails(make_request([5], session_id=session_id, tenant="b"))
        for session_id in (kept.session_id, "nobody")
    ]
    assert {field_of(error, grpc.StatusCode.NOT_FOUND) for error in errors} == {"session_id"}
    assert errors[0].details() == errors[1].details()
    again = await stack.generate([7], tenant="a", session_id=kept.session_id, max_new_tokens=5)
    assert len(again.ids) == 5, "its owner goes on with it"


async def test_every_bad_request_is_refused_by_name(stack: Stack) -> None:
    """All of them, beside a running stream that does not notice; then a good one."""
    plain = await stack.generate(prompt_of(9), max_new_tokens=400)
    fields: dict[str, str] = {}

    async def refuse(name: str) -> None:
        fields[name] = field_of(await stack.fails(BAD[name][1], within_s=10))

    neighbours = await beside(stack, asyncio.gather(*(refuse(name) for name in BAD)))
    assert fields == {name: field for name, (field, _) in BAD.items()}
    assert all(neighbour.ids == plain.ids for neighbour in neighbours)
    assert (await stack.generate(prompt_of(9), 4, max_new_tokens=30)).ids == plain.ids[:30]


async def test_ten_megabytes_are_too_much(stack: Stack) -> None:
    """A message above the limit is RESOURCE_EXHAUSTED before anything reads it."""
    plain = await stack.generate(prompt_of(9), max_new_tokens=400)
    errors: list[grpc.aio.AioRpcError] = []

    async def send() -> None:
        errors.append(await stack.fails(make_request("x" * 10_000_000)))

    neighbours = await beside(stack, send())
    assert errors[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert all(neighbour.ids == plain.ids for neighbour in neighbours)


@pytest.mark.parametrize("fields", [{"temperature": 1e-5}, {"temperature": 1e-3}, {"temperature": 0.0, "top_k": 10**6}])
async def test_odd_but_allowed_values_mean_greedy(stack: Stack, fields: dict[str, Any]) -> None:
    """The smallest temperatures behave as greedy with these peaked models; a top_k beyond the vocabulary keeps all."""
    plain = await stack.generate(prompt_of(9))
    for k in (0, 4):
        assert (await stack.generate(prompt_of(9), k, seed=1, **fields)).ids == plain.ids


@pytest.mark.parametrize("text", [" ", "\n", "\u0000", "<|im_end|>", "日本語 👩‍🚀", "\u202e\u0301"])
async def test_odd_but_allowed_prompts_are_answered(stack: Stack, text: str) -> None:
    """Any text that gives at least one token is a prompt."""
    plain = await stack.generate(text, 0, max_new_tokens=8)
    answer = await stack.generate(text, 4, max_new_tokens=8)
    assert (answer.ids, answer.text) == (plain.ids, plain.text)


async def test_an_empty_second_turn_is_refused(stack: Stack) -> None:
    """The session survives the refusal."""
    first = await stack.generate(prompt_of(9), max_new_tokens=5, keep_session=True)
    for request in (
        make_request([], session_id=first.session_id),
        make_request("", session_id=first.session_id),
        make_request(pb.Chat(messages=[pb.ChatMessage(role="user", content="x")]), session_id=first.session_id),
    ):
        assert field_of(await stack.fails(request)) in ("token_ids.ids", "prompt", "chat")
    fresh = await stack.generate([*prompt_of(9), *first.ids, 7], max_new_tokens=5)
    assert (await stack.generate([7], max_new_tokens=5, session_id=first.session_id)).ids == fresh.ids


def sampling(**fields: Any) -> common_pb2.SamplingParams:
    return common_pb2.SamplingParams(**({"seed": 1} | fields))


def opening(role: str, **fields: Any) -> Any:
    """A good first message of a stream, with changes."""
    common: dict[str, Any] = {"session_id": "direct", "tokens": [5, 6], "sampling": sampling()} | fields
    if role == "draft":
        return draft_pb2.ProposeRequest(**({"max_draft_tokens": 2} | common))
    return target_pb2.VerifyRequest(**common)


def looking(draft_tokens: list[int], fanout: list[int]) -> draft_pb2.LookAhead:
    return draft_pb2.LookAhead(draft_tokens=draft_tokens, fanout=fanout)


def unknown_field_ahead() -> draft_pb2.LookAhead:
    """A look-ahead of a later protocol: field 99, a varint."""
    return draft_pb2.LookAhead.FromString(looking([], [1]).SerializeToString() + b"\x98\x06\x01")


BOTH_BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "no sampling": ("sampling", {"sampling": None}),
    "no seed": ("sampling.seed", {"sampling": common_pb2.SamplingParams()}),
    "bad temperature": ("sampling.temperature", {"sampling": sampling(temperature=-1.0)}),
    "no session": ("session_id", {"session_id": ""}),
    "session id too long": ("session_id", {"session_id": "x" * 129}),
    "no tokens": ("tokens", {"tokens": []}),
    "bad id": ("tokens[1]", {"tokens": [5, VOCABULARY]}),
    "too long": ("tokens", {"tokens": prompt_of(2100)}),
}
DRAFT_BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "none wanted": ("max_draft_tokens", {"max_draft_tokens": 0}),
    "too many wanted": ("max_draft_tokens", {"max_draft_tokens": 17}),
    "bad id in flight": ("look_ahead.draft_tokens[1]", {"look_ahead": looking([5, VOCABULARY], [1, 1, 1])}),
    "too many in flight": ("look_ahead.draft_tokens", {"look_ahead": looking([5] * 17, [1] * 18)}),
    "fanout too short": ("look_ahead.fanout", {"look_ahead": looking([5, 6], [1, 1])}),
    "fanout too long": ("look_ahead.fanout", {"look_ahead": looking([], [1, 1])}),
    "no fanout": ("look_ahead.fanout", {"look_ahead": looking([], [])}),
    "no outcomes": ("look_ahead.fanout", {"look_ahead": looking([5], [0, 0])}),
    "17 outcomes of one place": ("look_ahead.fanout[1]", {"look_ahead": looking([5], [1, 17])}),
    "65 outcomes": ("look_ahead.fanout", {"look_ahead": looking([5] * 4, [16, 16, 16, 16, 1])}),
    "none wanted ahead": ("max_draft_tokens", {"max_draft_tokens": 0, "look_ahead": looking([], [1])}),
    "no tokens ahead": ("tokens", {"tokens": [], "look_ahead": looking([], [1])}),
    "unknown field ahead": ("look_ahead", {"look_ahead": unknown_field_ahead()}),
}
TARGET_BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "bad draft id": ("draft_tokens[0]", {"draft_tokens": [VOCABULARY]}),
    "too many draft tokens": ("draft_tokens", {"draft_tokens": [5] * 17}),
    "too long a run": ("run", {"run": 65}),
    "a run after a block": ("run", {"run": 1, "draft_tokens": [5]}),
    "too long with its run": ("tokens", {"tokens": prompt_of(2040), "run": 9}),
    "too long with its block": ("tokens", {"tokens": prompt_of(2048), "draft_tokens": [5]}),
}


@pytest.fixture(params=["draft", "target"])
async def direct(request: pytest.FixtureRequest, stack: Stack) -> AsyncIterator[tuple[ReplicaServer, Any]]:
    """A model service and the method of its streams, called without an orchestrator."""
    server = stack.draft if request.param == "draft" else stack.target
    assert server is not None
    async with grpc.aio.insecure_channel(server.address) as channel:
        if request.param == "draft":
            yield server, draft_pb2_grpc.DraftServiceStub(channel).Propose
        else:
            yield server, target_pb2_grpc.TargetServiceStub(channel).Verify


async def exchange(method: Any, *requests: Any) -> list[Any]:
    """Answers to messages of one stream; the stream is ended properly."""
    call = method(timeout=30)
    answers = []
    for request in requests:
        await call.write(request)
        answers.append(await call.read())
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    return answers


async def refusal(method: Any, *requests: Any) -> grpc.aio.AioRpcError:
    """The error that the last message is answered with."""
    try:
        await exchange(method, *requests)
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("the message was taken")


async def test_the_model_services_refuse_by_name_too(direct: tuple[ReplicaServer, Any]) -> None:
    """A broken orchestrator is told what is wrong, and leaves nothing behind."""
    server, method = direct
    cases = BOTH_BAD | (DRAFT_BAD if server.role == "draft" else TARGET_BAD)
    if server.role == "draft":
        cases.pop("too long")  # a draft past its context has nothing to say; see test_equality
    named = {
        name: field_of(await refusal(method, opening(server.role, **fields))) for name, (_, fields) in cases.items()
    }
    assert named == {name: field for name, (field, _) in cases.items()}
    await eventually(lambda: server.idle(), "nothing is left")


async def test_a_stream_belongs_to_one_session(direct: tuple[ReplicaServer, Any]) -> None:
    """Later messages may repeat the session or leave it out, not change it."""
    server, method = direct
    for same in ("", "direct"):
        answers = await exchange(method, opening(server.role), opening(server.role, session_id=same, sampling=None))
        assert [answer.WhichOneof("outcome") for answer in answers] != ["cache_miss"] * 2
    error = await refusal(method, opening(server.role), opening(server.role, session_id="other"))
    assert field_of(error) == "session_id"
    await server.evict()


async def test_claims_that_do_not_hold_are_cache_misses(direct: tuple[ReplicaServer, Any]) -> None:
    """Unknown sessions, longer prefixes and other digests are normal answers (design I3), and hold nothing."""
    server, method = direct
    (unknown,) = await exchange(method, opening(server.role, prefix_len=3, prefix_digest=9))
    assert unknown.cache_miss.cached_len == 0
    assert server.sessions == 0
    good, longer, other = await exchange(
        method,
        opening(server.role),
        opening(server.role, prefix_len=100, prefix_digest=9),
        opening(server.role, prefix_len=2, prefix_digest=9),
    )
    assert good.WhichOneof("outcome") != "cache_miss"
    assert longer.WhichOneof("outcome") == other.WhichOneof("outcome") == "cache_miss"
    assert longer.cache_miss.cached_len >= 2
    assert other.cache_miss.cached_len == 0
    await server.evict()


LATER = b"\x98\x06\x01"  # field 99, a varint: of a later protocol
DRAFT_CALLS: dict[str, Any] = {
    "Release": draft_pb2.DraftServiceReleaseRequest,
    "GetReplicaInfo": draft_pb2.DraftServiceGetReplicaInfoRequest,
}
TARGET_CALLS: dict[str, Any] = {
    "Release": target_pb2.TargetServiceReleaseRequest,
    "GetReplicaInfo": target_pb2.TargetServiceGetReplicaInfoRequest,
}


async def test_single_calls_refuse_unknown_fields_too(stack: Stack) -> None:
    """All of all three services, inner messages included: a later caller's wish is not ignored (design I4)."""
    assert stack.draft is not None
    services: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        (
            f"127.0.0.1:{stack.server.port}",
            orchestrator_pb2_grpc.OrchestratorServiceStub,
            {"GetInfo": pb.GetInfoRequest},
        ),
        (stack.draft.address, draft_pb2_grpc.DraftServiceStub, DRAFT_CALLS),
        (stack.target.address, target_pb2_grpc.TargetServiceStub, TARGET_CALLS),
    )
    refused = []
    for address, stub, calls in services:
        async with grpc.aio.insecure_channel(address) as channel:
            for name, message in calls.items():
                odd = [("request", message.FromString(LATER))]
                if name == "Release":
                    odd.append(("release", message(release=common_pb2.ReleaseRequest.FromString(b"\n\x01x" + LATER))))
                for field, request in odd:
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await getattr(stub(channel), name)(request, timeout=5)
                    assert field_of(caught.value) == field
                    refused.append(name)
    assert sorted(refused) == ["GetInfo", *["GetReplicaInfo"] * 2, *["Release"] * 4]


async def test_release_of_nobody_and_of_somebody(stack: Stack) -> None:
    """Idempotent; says whether the session was known; checks the id."""
    async with grpc.aio.insecure_channel(stack.target.address) as channel:
        stub = target_pb2_grpc.TargetServiceStub(channel)
        await exchange(stub.Verify, opening("target"))

        async def release(session_id: str) -> bool:
            wish = common_pb2.ReleaseRequest(session_id=session_id)
            response = await stub.Release(target_pb2.TargetServiceReleaseRequest(release=wish), timeout=5)
            return bool(response.release.released)

        assert [await release("direct"), await release("direct")] == [True, False]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await release("")
        assert field_of(caught.value) == "session_id"
