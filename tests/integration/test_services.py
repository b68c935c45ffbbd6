"""What every service owes its operator: health, reflection, a drain on SIGTERM, errors of configuration in words."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from transformers import MambaConfig, MambaForCausalLM

from draft_service.service import NAME as DRAFT_NAME
from draft_service.service import DraftService
from orchestrator.member import State
from orchestrator.service import NAME as ORCHESTRATOR_NAME
from outrider.server import Server
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.draft_pb2_grpc import add_DraftServiceServicer_to_server
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub
from outrider.v1.target_pb2_grpc import add_TargetServiceServicer_to_server
from target_service.service import NAME as TARGET_NAME
from target_service.service import TargetService
from tests.integration.processes import Service, free_address, health, running, serves, spawn
from tests.integration.prompts import prompt_of
from tests.stack import LOCAL, Answer, Farm, Stack, make_request, own_stack
from tests.tiny import save_tokenizer

TINY = {"OUTRIDER_DTYPE": "float32", "OUTRIDER_THREADS": "1", "OUTRIDER_KV_BYTES": "32MiB"}


@pytest.fixture
async def stack(farm: Farm, llama: Path) -> Stack:
    return await farm.stack(llama, llama)


def addresses(stack: Stack) -> dict[str, str]:
    """Where each service listens, by its full name."""
    assert stack.draft is not None
    return {
        ORCHESTRATOR_NAME: f"127.0.0.1:{stack.server.port}",
        TARGET_NAME: stack.target.address,
        DRAFT_NAME: stack.draft.address,
    }


async def test_health_of_each_service(stack: Stack) -> None:
    """By its own name and as a whole; unknown names are NOT_FOUND."""
    for name, address in addresses(stack).items():
        async with grpc.aio.insecure_channel(address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for asked in ("", name):
                response = await stub.Check(health_pb2.HealthCheckRequest(service=asked), timeout=5)
                assert response.status == health_pb2.HealthCheckResponse.SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=5)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_health_follows_the_flag(stack: Stack) -> None:
    """A server that is not ready says so."""
    server = stack.target.server
    async with grpc.aio.insecure_channel(stack.target.address) as channel:
        await server.set_serving(False)
        assert await health(channel) == "NOT_SERVING"
        await server.set_serving(True)
        assert await health(channel) == "SERVING"


def answer_by_reflection(address: str) -> tuple[list[int], str]:
    """Ids and finish reason, by a client that knows nothing but the address and the service's name."""
    with grpc.insecure_channel(address) as channel:
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        method = pool.FindServiceByName(ORCHESTRATOR_NAME).FindMethodByName("Generate")
        request_class = message_factory.GetMessageClass(method.input_type)
        response_class = message_factory.GetMessageClass(method.output_type)
        call = channel.unary_stream(
            f"/{ORCHESTRATOR_NAME}/Generate",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        request: Any = request_class(prompt="hello", max_new_tokens=12, ignore_eos=True)
        ids: list[int] = []
        reason = ""
        events: Any = call(request, timeout=60)
        for event in events:
            ids.extend(event.delta.token_ids)
            if event.WhichOneof("event") == "finished":
                values = event.finished.DESCRIPTOR.fields_by_name["reason"].enum_type.values_by_number
                reason = values[event.finished.reason].name
        return ids, reason


def described_methods(address: str, name: str) -> dict[str, list[str]]:
    """Services that reflection lists, and the methods of one."""
    with grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        service = descriptor_pool.DescriptorPool(database).FindServiceByName(name)
        return {"services": list(database.get_services()), "methods": [method.name for method in service.methods]}


async def test_a_client_made_from_reflection_alone(stack: Stack) -> None:
    """grpcurl and friends need no proto files."""
    plain = await stack.generate("hello", 0, max_new_tokens=12)
    address = addresses(stack)[ORCHESTRATOR_NAME]
    ids, reason = await asyncio.to_thread(answer_by_reflection, address)
    assert (ids, reason) == (plain.ids, "FINISH_REASON_LENGTH")


async def test_every_service_describes_itself(stack: Stack) -> None:
    """Reflection lists the service, health and itself."""
    methods = {
        ORCHESTRATOR_NAME: {"Generate", "GetInfo"},
        TARGET_NAME: {"Verify", "Release", "GetReplicaInfo"},
        DRAFT_NAME: {"Propose", "Release", "GetReplicaInfo"},
    }
    for name, address in addresses(stack).items():
        described = await asyncio.to_thread(described_methods, address, name)
        assert {name, "grpc.health.v1.Health"} <= set(described["services"])
        assert methods[name] <= set(described["methods"])


async def test_get_info_describes_the_pair(stack: Stack) -> None:
    """Both replicas, as they say of themselves."""
    info = await stack.info()
    assert (info.target.state, info.draft.state) == (pb.REPLICA_STATE_READY, pb.REPLICA_STATE_READY)
    assert info.target.info.row_invariant
    assert info.target.info.tokenizer_fingerprint == info.draft.info.tokenizer_fingerprint
    assert info.target.info.incarnation != info.draft.info.incarnation
    assert list(info.target.info.eos_token_ids) == [3]
    assert (info.sessions, info.active_requests) == (0, 0)
    kept = await stack.generate([5], max_new_tokens=2, keep_session=True)
    assert (await stack.info()).sessions == 1
    await stack.generate([5], max_new_tokens=2, session_id=kept.session_id)
    assert (await stack.info()).sessions == 0


class Weighing:
    """Keeps the messages of the streams that it is wrapped around."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.responses: list[Any] = []

    async def around(self, behavior: Any, requests: Any, context: Any) -> AsyncIterator[Any]:
        async def noted() -> AsyncIterator[Any]:
            async for request in requests:
                self.requests.append(request)
                yield request

        async for response in behavior(noted(), context):
            self.responses.append(response)
            yield response


def with_ids_of(message: Any, token: int) -> Any:
    """The message with every id replaced: its size for another vocabulary."""
    copy = type(message)()
    copy.CopyFrom(message)
    for holder, name in ((copy, "tokens"), (copy, "draft_tokens"), (getattr(copy, "block", None), "tokens")):
        ids = getattr(holder, name, None)
        if ids:
            ids[:] = [token] * len(ids)
    return copy


async def test_a_round_of_eight_is_under_200_bytes(stack: Stack) -> None:
    """Payload each way, measured on real rounds with the ids of a vocabulary of 262 144."""
    assert stack.draft is not None
    drafts, targets = Weighing(), Weighing()

    class Draft(DraftService):
        def Propose(self, requests: Any, context: Any) -> AsyncIterator[Any]:
            return drafts.around(super().Propose, requests, context)

    class Target(TargetService):
        def Verify(self, requests: Any, context: Any) -> AsyncIterator[Any]:
            return targets.around(super().Verify, requests, context)

    draft_server, target_server = Server(LOCAL, [DRAFT_NAME], drain_s=0), Server(LOCAL, [TARGET_NAME], drain_s=0)
    add_DraftServiceServicer_to_server(Draft(stack.draft.replica), draft_server.grpc_server)
    add_TargetServiceServicer_to_server(Target(stack.target.replica), target_server.grpc_server)
    await draft_server.start()
    await target_server.start()
    target = type(stack.target)("target", stack.target.config, stack.target.replica, target_server)
    try:
        async with own_stack(target, draft_address=f"127.0.0.1:{draft_server.port}") as weighed:
            await weighed.draft_is(State.READY)
            answer = await weighed.generate(prompt_of(9), 8, max_new_tokens=45)
        assert max(stats.num_accepted for stats in answer.rounds) == 8
        for weighing in (drafts, targets):
            assert len(weighing.requests) >= 5
            for message in (*weighing.requests[1:], *weighing.responses):
                assert with_ids_of(message, 2**18 - 1).ByteSize() < 200
    finally:
        await draft_server.drain()
        await target_server.drain()


@contextlib.asynccontextmanager
async def processes(llama: Path) -> AsyncIterator[dict[str, Service]]:
    """Draft, target and orchestrator as processes, serving."""
    model = TINY | {"OUTRIDER_MODEL": str(llama)}
    async with running("draft_service", model) as draft, running("target_service", model) as target:
        settings = {
            "OUTRIDER_TOKENIZER": str(llama),
            "OUTRIDER_TARGET": target.address,
            "OUTRIDER_DRAFT": draft.address,
        }
        async with running("orchestrator", settings) as orchestrator:
            assert await orchestrator.health() in ("UNAVAILABLE", "NOT_SERVING")
            for service in (target, draft, orchestrator):
                await serves(service)
            yield {"draft": draft, "target": target, "orchestrator": orchestrator}


@pytest_asyncio.fixture(loop_scope="session")
async def services(llama: Path) -> AsyncIterator[dict[str, Service]]:
    async with processes(llama) as started:
        yield started


async def until_ready(stub: Any) -> None:
    """Wait until the orchestrator uses its draft."""
    async with asyncio.timeout(30):
        state = None
        while state != pb.REPLICA_STATE_READY:
            state = (await stub.GetInfo(pb.GetInfoRequest(), timeout=5)).draft.state


async def streamed(stub: Any, request: pb.GenerateRequest, at_ten_tokens: Any) -> Answer:
    """An answer; after its first ten tokens something happens."""
    answer = Answer()
    happened = False
    async for event in stub.Generate(request, timeout=120):
        answer.read(event)
        if not happened and len(answer.ids) >= 10:
            happened = True
            await at_ten_tokens()
    answer.check_books()
    return answer


async def test_processes_under_load_and_sigterm(services: dict[str, Service], stack: Stack) -> None:
    """Health stays quick while the target is saturated; then each process drains: streams end, exit code 0."""
    plain = await stack.generate(prompt_of(9), 0, max_new_tokens=600)
    async with grpc.aio.insecure_channel(services["orchestrator"].address) as channel:
        stub = OrchestratorServiceStub(channel)
        await until_ready(stub)
        await check_health_under_load(stub, services)

        answer = await streamed(stub, make_request(prompt_of(9), 4, max_new_tokens=600), services["draft"].terminate)
        assert (answer.ids, answer.reason) == (plain.ids, "LENGTH")
        assert (await services["draft"].ended())[0] == 0

        async def stop_both() -> None:
            await services["target"].terminate()
            await services["orchestrator"].terminate()

        answer = await streamed(stub, make_request(prompt_of(9), 0, max_new_tokens=600), stop_both)
        assert (answer.ids, answer.reason) == (plain.ids, "LENGTH")
    for name in ("orchestrator", "target"):
        code, log = await services[name].ended()
        assert code == 0, log
        assert "SIGTERM; draining" in log
        assert "ERROR" not in log, log


async def check_health_under_load(stub: Any, services: dict[str, Service]) -> None:
    """Eight streams with long prompts; each health check answers within a second."""

    async def load(number: int) -> None:
        async for _ in stub.Generate(make_request(prompt_of(1800, number), 2, max_new_tokens=40), timeout=120):
            pass

    streams = asyncio.gather(*(load(number) for number in range(8)))
    slowest = dict.fromkeys(("target", "orchestrator"), 0.0)
    checks = 0
    async with contextlib.AsyncExitStack() as stacked:
        channels = {
            name: await stacked.enter_async_context(grpc.aio.insecure_channel(services[name].address))
            for name in slowest
        }
        while not streams.done():
            for name, channel in channels.items():
                began = time.monotonic()
                assert await health(channel) == "SERVING"
                slowest[name] = max(slowest[name], time.monotonic() - began)
            checks += 1
            await asyncio.wait({streams}, timeout=0.01)
    await streams
    assert checks > 5
    assert max(slowest.values()) < 1, slowest


async def test_health_of_the_orchestrator_follows_the_target(llama: Path) -> None:
    """NOT_SERVING without a target: a load balancer then sends nobody here."""
    settings = {"OUTRIDER_TOKENIZER": str(llama), "OUTRIDER_TARGET": free_address()}
    async with running("orchestrator", settings) as orchestrator:
        await serves(orchestrator, "NOT_SERVING")
        async with grpc.aio.insecure_channel(orchestrator.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in OrchestratorServiceStub(channel).Generate(make_request([5]), timeout=10):
                    pass
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await orchestrator.terminate()
        assert (await orchestrator.ended())[0] == 0


MISTAKES: list[tuple[str, dict[str, str], str]] = [
    ("target_service", {"OUTRIDER_MODEL": "/nonexistent/model"}, "/nonexistent/model"),
    ("target_service", {"OUTRIDER_MODEL": "MAMBA"}, "mamba"),
    ("target_service", {"OUTRIDER_MODEL": "LLAMA", "OUTRIDER_LISTEN": "TAKEN"}, "another process"),
    ("target_service", {"OUTRIDER_MODEL": "LLAMA", "OUTRIDER_LOG_LEVEL": "CHATTY"}, "OUTRIDER_LOG_LEVEL"),
    ("orchestrator", {}, "OUTRIDER_TOKENIZER"),
    ("orchestrator", {"OUTRIDER_TOKENIZER": "/nonexistent"}, "/nonexistent/tokenizer.json"),
    ("orchestrator", {"OUTRIDER_TOKENIZER": "LLAMA", "OUTRIDER_MAX_DRAFT_TOKENS": "0"}, "MAX_DRAFT_TOKENS"),
    ("orchestrator", {"OUTRIDER_TOKENIZER": "LLAMA", "OUTRIDER_MAX_STREAMS": "x"}, "OUTRIDER_MAX_STREAMS"),
    ("orchestrator", {"OUTRIDER_TOKENIZER": "LLAMA", "OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER"),
    ("orchestrator", {"OUTRIDER_TOKENIZER": "LLAMA", "OUTRIDER_LOG_LEVEL": "CHATTY"}, "OUTRIDER_LOG_LEVEL"),
]


async def test_mistakes_of_configuration_are_named(llama: Path, stack: Stack, tmp_path: Path) -> None:
    """Exit code 2 and one line that names the variable or the thing; no traceback."""
    config = MambaConfig(vocab_size=320, hidden_size=32, num_hidden_layers=2, state_size=8)
    MambaForCausalLM(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    values = {"LLAMA": str(llama), "MAMBA": str(tmp_path), "TAKEN": stack.target.address}
    one_at_a_time = asyncio.Semaphore(2)

    async def try_one(module: str, variables: dict[str, str]) -> tuple[int, str]:
        async with one_at_a_time:
            chosen = {name: values.get(value, value) for name, value in variables.items()}
            return await (await spawn(module, {"OUTRIDER_LISTEN": free_address()} | chosen)).ended()

    results = await asyncio.gather(*(try_one(module, variables) for module, variables, _ in MISTAKES))
    for (module, variables, named), (code, log) in zip(MISTAKES, results, strict=True):
        assert code == 2, f"{module} {variables}: {log}"
        assert named in log.splitlines()[-1], f"{module} {variables}: {log}"
        assert "Traceback" not in log
