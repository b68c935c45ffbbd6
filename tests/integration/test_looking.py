"""Requests are remembered for whoever made them, and their spans say what the answers said."""

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider import otlp_json, semconv
from outrider.otlp_json import SpanRecord
from outrider.v1 import orchestrator_pb2 as pb
from tests.integration.prompts import prompt_of
from tests.stack import Farm, Stack, make_request, own_stack


async def spans(stack: Stack, name: str, **call: Any) -> list[SpanRecord]:
    response = await stack.stub.GetTrace(pb.GetTraceRequest(id=name, tenant=call.pop("tenant", "")), timeout=10, **call)
    return otlp_json.read(response.otlp_json)


@pytest.mark.parametrize("k", [4, 0, None], ids=["blocks", "runs", "auto"])
async def test_the_spans_of_a_request_that_nobody_traces_say_what_its_answer_said(
    farm: Farm, llama: Path, good_draft: Path, k: int | None
) -> None:
    """Every round with its tokens, below the request; nothing hangs loose."""
    target, draft = await farm.replica("target", llama), await farm.replica("draft", good_draft)
    async with own_stack(target, draft) as stack:
        answer = await stack.generate(prompt_of(9), k, max_new_tokens=20)
        found = await spans(stack, answer.session_id)
        (root,) = [span for span in found if not span.parent_id]
        assert root.attributes[semconv.OUTPUT_TOKENS] == len(answer.ids)
        rounds = sorted(
            (span for span in found if span.name == semconv.SPAN_ROUND), key=lambda span: span.attributes[semconv.ROUND]
        )
        assert [span.attributes[semconv.ROUND] for span in rounds] == [stats.round for stats in answer.rounds]
        assert [span.attributes[semconv.ACCEPTED] for span in rounds] == [stats.num_accepted for stats in answer.rounds]
        texts = [text for span in rounds for text in span.attributes[semconv.EMITTED_TEXTS]]
        assert len(texts) == len(answer.ids)
        assert all(semconv.EMITTED_TOKENS not in span.attributes for span in found), "ids are told only where asked for"
        verifies = [span for span in found if span.name == semconv.SPAN_VERIFY_CLIENT]
        assert {span.parent_id for span in verifies} == {span.span_id for span in rounds}
        assert {span.trace_id for span in found} == {root.trace_id}
        by_id = {span.span_id: span for span in found}
        for span in found:
            parent = by_id.get(span.parent_id)
            assert parent is not None or span is root
            assert parent is None or parent.start_ns <= span.start_ns <= span.end_ns


async def test_the_last_requests_are_listed_with_what_became_of_them(farm: Farm, llama: Path) -> None:
    async with own_stack(await farm.replica("target", llama)) as stack:
        answer = await stack.generate(prompt_of(9), 0, max_new_tokens=8)
        await stack.fails(make_request(prompt_of(9), 0, max_new_tokens=8, session_id="nobody"))
        (listed,) = (await stack.stub.ListRequests(pb.ListRequestsRequest(), timeout=10)).requests
        assert (listed.session_id, listed.outcome, listed.running) == (answer.session_id, "length", False)
        assert (listed.completion_tokens, listed.prompt_tokens) == (8, 9)
        assert 0 < listed.first_token_us <= listed.took_us
        assert {span.trace_id for span in await spans(stack, listed.trace_id)} == {listed.trace_id}


async def test_nobody_looks_at_the_requests_of_another_tenant(farm: Farm, llama: Path, tmp_path: Path) -> None:
    """An id of another tenant is as unknown as one that never was."""
    keys = tmp_path / "tenants.toml"
    keys.write_text('[tenants.acme]\nkeys = ["one"]\n[tenants.umbrella]\nkeys = ["two"]\n')
    async with own_stack(await farm.replica("target", llama), tenants=str(keys)) as stack:
        one, two = ({"metadata": (("authorization", f"Bearer {key}"),)} for key in ("one", "two"))
        session = ""
        async for event in stack.stub.Generate(make_request([5], 0, max_new_tokens=4), timeout=20, **one):
            session = session or event.started.session_id
        assert await spans(stack, session, **one)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await spans(stack, session, **two)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert not (await stack.stub.ListRequests(pb.ListRequestsRequest(), timeout=10, **two)).requests
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await stack.stub.ListRequests(pb.ListRequestsRequest(), timeout=10)
        assert unknown.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(("name", "code"), [("", "INVALID_ARGUMENT"), ("nobody", "NOT_FOUND")])
async def test_an_id_that_is_not_remembered_is_refused_by_name(farm: Farm, llama: Path, name: str, code: str) -> None:
    async with own_stack(await farm.replica("target", llama)) as stack:
        with pytest.raises(grpc.aio.AioRpcError, match="id: ") as refused:
            await spans(stack, name)
        assert refused.value.code().name == code


async def test_a_text_of_a_request_is_in_no_log(farm: Farm, llama: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line per request, whatever became of it."""
    caplog.set_level("DEBUG")
    async with own_stack(await farm.replica("target", llama)) as stack:
        answer = await stack.generate("the secret of foxes", 0, max_new_tokens=8)
        await stack.fails(make_request("the secret of foxes", 0, max_new_tokens=-1))
    lines = [record for record in caplog.records if record.name == "orchestrator.requests"]
    assert [record.__dict__["facts"]["outcome"] for record in lines] == ["length", "InvalidArgument"]
    assert lines[0].__dict__["facts"]["session"] == answer.session_id
    said = json.dumps([record.getMessage() + str(record.__dict__.get("facts", "")) for record in caplog.records])
    assert "secret" not in said
