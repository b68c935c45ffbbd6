"""Traces of real processes through a real OTLP receiver; and nothing changes when there is none."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from bench.collector import collecting
from outrider import otlp_json, semconv
from outrider.otlp_json import SpanRecord
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub
from tests.integration.processes import free_address, running, serves
from tests.integration.prompts import prompt_of
from tests.stack import Answer, make_request
from tests.tiny import save_tokenizer
from tests.waiting import until


@contextlib.asynccontextmanager
async def system(folder: Path, variables: dict[str, str]) -> AsyncIterator[list[str]]:
    """Three processes; the logs of all of them once they have ended."""
    save_tokenizer(folder)
    model = {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_MODEL": str(folder), "OUTRIDER_SYNTHETIC_PASS_MS": "5"}
    target, draft, logs = free_address(), free_address(), list[str]()
    ways = {"OUTRIDER_TARGET": target, "OUTRIDER_DRAFT": draft, "OUTRIDER_TOKENIZER": str(folder)}
    async with contextlib.AsyncExitStack() as stack:
        services = [
            await stack.enter_async_context(running(module, variables | own))
            for module, own in (
                ("target_service", model | {"OUTRIDER_LISTEN": target}),
                ("draft_service", model | {"OUTRIDER_LISTEN": draft}),
                ("orchestrator", ways),
            )
        ]
        for service in services:
            await serves(service)
        async with grpc.aio.insecure_channel(services[-1].address) as channel:
            await until(lambda: _paired(channel), "the draft is used")
        yield [services[-1].address]
        for service in reversed(services):
            await service.terminate()
            code, log = await service.ended()
            logs.append(log)
            assert code == 0, log
    for log in logs:
        assert "Traceback" not in log
        assert " ERROR " not in log, log


async def _paired(channel: grpc.aio.Channel) -> bool:
    info = await OrchestratorServiceStub(channel).GetInfo(pb.GetInfoRequest(), timeout=5)
    return bool(info.draft.state == pb.REPLICA_STATE_READY)


async def ask(address: str, k: int, give_up_after: int = 10**6) -> Answer:
    answer = Answer()
    async with grpc.aio.insecure_channel(address) as channel:
        call = OrchestratorServiceStub(channel).Generate(make_request(prompt_of(20), k, max_new_tokens=30), timeout=60)
        async for event in call:
            answer.read(event)
            if len(answer.ids) >= give_up_after:
                call.cancel()
                return answer
    return answer


def generated(spans: list[SpanRecord]) -> int:
    return sum(span.name == semconv.SPAN_GENERATE for span in spans)


def generates(span: SpanRecord, answer: Answer) -> bool:
    return not span.parent_id and span.attributes.get(semconv.SESSION_ID) == answer.session_id


def orphans(spans: list[SpanRecord]) -> list[SpanRecord]:
    known = {(span.trace_id, span.span_id) for span in spans}
    return [span for span in spans if span.parent_id and (span.trace_id, span.parent_id) not in known]


async def test_the_traces_of_three_processes_meet_in_a_real_receiver(tmp_path: Path) -> None:
    """Every round of every answer, its exchanges and what replicas did for it, also where clients went; no orphan."""
    async with collecting(tmp_path / "collector") as collector:
        async with system(tmp_path / "model", collector.variables) as (address,):
            answers = await asyncio.gather(*(ask(address, k) for k in (0, 4)))
            await asyncio.gather(*(ask(address, 4, give_up_after=5) for _ in range(6)))
        seen: list[SpanRecord] = []

        async def all_there() -> bool:
            text = await asyncio.to_thread(lambda: collector.file.read_text() if collector.file.exists() else "")
            seen[:] = otlp_json.read(text)
            return generated(seen) == 8 and not orphans(seen)

        await until(all_there, "all spans have come")
    services = {span.name: span.service for span in seen}
    assert services[semconv.SPAN_ROUND] == "outrider-orchestrator"
    assert services[semconv.SPAN_VERIFY_SERVER] == services[semconv.SPAN_TARGET_FORWARD] == "outrider-target"
    assert services[semconv.SPAN_PROPOSE_SERVER] == services[semconv.SPAN_DRAFT_FORWARD] == "outrider-draft"
    for answer in answers:
        (root,) = [
            span for span in seen if span.attributes.get(semconv.SESSION_ID) == answer.session_id and not span.parent_id
        ]
        rounds = [span for span in seen if span.trace_id == root.trace_id and span.name == semconv.SPAN_ROUND]
        served = [span for span in seen if span.trace_id == root.trace_id and span.name == semconv.SPAN_VERIFY_SERVER]
        assert len(rounds) == len(answer.rounds) == len(served)


@pytest.mark.parametrize("sampler", ["parentbased_always_on", "parentbased_always_off"])
async def test_a_collector_that_is_away_changes_nothing(tmp_path: Path, sampler: str) -> None:
    """Answers are the same, and processes end in time with code 0."""
    away = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{free_address()}",
        "OTEL_TRACES_SAMPLER": sampler,
        "OUTRIDER_DRAIN_S": "0.5",
    }
    async with system(tmp_path, away) as (address,):
        with_, without = await asyncio.gather(ask(address, 4), ask(address, 0))
        assert with_.ids == without.ids
        assert len(with_.ids) == 30
        async with grpc.aio.insecure_channel(address) as channel:
            info = await OrchestratorServiceStub(channel).GetInfo(pb.GetInfoRequest(), timeout=5)
        assert info.totals.emitted == 60
