"""What is asked over HTTP is answered as over gRPC: same tokens, refusals and owners; browsers are kept in bounds."""

import asyncio
import json
from pathlib import Path

import pytest

from orchestrator.config import OrchestratorConfig
from orchestrator.tenants import Tenants
from orchestrator.web.server import bind
from outrider import otlp_json, semconv
from outrider.config import ConfigError, load
from tests.integration.prompts import prompt_of
from tests.integration.web import page_of
from tests.stack import Farm, own_stack
from tests.waiting import eventually

FIXED = {"mode": "SPECULATION_MODE_FIXED", "draft_tokens": 4}


async def test_an_answer_over_http_has_the_tokens_of_one_over_grpc_and_the_spans_of_its_rounds(
    farm: Farm, llama: Path, good_draft: Path
) -> None:
    target, draft = await farm.replica("target", llama), await farm.replica("draft", good_draft)
    async with own_stack(target, draft) as stack, page_of(stack) as page:
        plain = await stack.generate(prompt_of(9), 0, max_new_tokens=20)
        asked = {"token_ids": {"ids": prompt_of(9)}, "max_new_tokens": 20, "speculation": FIXED}
        reply = await page.post("/api/generate", asked)
        assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        names = [name for name, _ in reply.events]
        assert (names[0], names[-1], names.count("finished")) == ("started", "spans", 1)
        deltas = [data for name, data in reply.events if name == "delta"]
        assert [token for data in deltas for token in data["token_ids"]] == plain.ids
        spans = [span for name, data in reply.events if name == "spans" for span in otlp_json.read(json.dumps(data))]
        rounds = [span.attributes[semconv.ROUND] for span in spans if span.name == semconv.SPAN_ROUND]
        assert rounds == [data["round"]["round"] for data in deltas if data["round"]]
        assert len({span.span_id for span in spans}) == len(spans), "each is told once"
        listed = (await page.get("/api/requests")).json["requests"]
        saved = otlp_json.read((await page.get(f"/api/requests/{listed[0]['trace_id']}")).body)
        assert {span.span_id for span in saved} == {span.span_id for span in spans}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"prompt": "x", "n": 2}, 400, "n: only 1 answer"),
        ({"promt": "x"}, 400, "promt: is no field"),
        ({"prompt": "x", "max_new_tokens": "many"}, 400, "max_new_tokens"),
        ({"prompt": ""}, 400, "prompt: must not be empty"),
        (b"[]", 400, "must be a JSON object"),
        (b"{", 400, "request"),
        (b"\xff{}", 400, "request"),
        (b'{"prompt": "' + b"x" * 2**21 + b'"}', 413, "at most"),
    ],
)
async def test_what_is_wrong_is_refused_with_its_field(
    farm: Farm, llama: Path, body: object, status: int, words: str
) -> None:
    async with own_stack(await farm.replica("target", llama)) as stack, page_of(stack) as page:
        reply = await page.post("/api/generate", body)
        assert reply.status == status
        assert words in reply.json["error"]["message"]


async def test_a_form_of_another_page_cannot_ask(farm: Farm, llama: Path) -> None:
    """It can send text and form data, and name a host that resolves to this machine; neither is taken."""
    async with own_stack(await farm.replica("target", llama)) as stack, page_of(stack) as page:
        text = await page.post("/api/generate", {"prompt": "x"}, Content_Type="text/plain")
        assert text.status == 415
        elsewhere = await page.get("/api/info", Host="evil.example")
        assert elsewhere.status == 421
        assert not stack.pools.meters.requests.read()


async def test_the_page_may_load_and_be_loaded_by_nobody_else(farm: Farm, llama: Path) -> None:
    async with own_stack(await farm.replica("target", llama)) as stack, page_of(stack) as page:
        for path in ("/ui", "/ui/app.js", "/ui/style.css", "/api/info", "/nothing"):
            reply = await page.get(path)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert "access-control-allow-origin" not in reply.headers
        html = (await page.get("/ui")).body
        assert "http://" not in html.replace("http://www.w3.org", "")
        assert "https://" not in html


async def test_probes_say_whether_there_is_a_target(farm: Farm, llama: Path) -> None:
    target = await farm.replica("target", llama, kv_bytes=2**21)
    async with own_stack(target) as stack, page_of(stack) as page:
        assert [(await page.get(path)).status for path in ("/healthz", "/readyz")] == [200, 200]
        stack.target_member.failed("for the test")
        assert [(await page.get(path)).status for path in ("/healthz", "/readyz")] == [200, 503]
        await eventually(lambda: stack.pools.targets.ready, "it is asked again")


async def test_keys_and_tenants_hold_over_http(farm: Farm, llama: Path, tmp_path: Path) -> None:
    file = tmp_path / "tenants.toml"
    file.write_text('[tenants.acme]\nkeys = ["one"]\n[tenants.umbrella]\nkeys = ["two"]\n')
    async with (
        own_stack(await farm.replica("target", llama), tenants=str(file)) as stack,
        page_of(stack, Tenants.load(str(file))) as page,
    ):
        asked = {"token_ids": {"ids": [5]}, "max_new_tokens": 3}
        assert (await page.post("/api/generate", asked)).status == 401
        assert (await page.get("/api/info")).status == 401
        assert (await page.post("/api/generate", asked, Authorization="Bearer one")).status == 200
        (listed,) = (await page.get("/api/requests", Authorization="Bearer one")).json["requests"]
        assert (await page.get("/api/requests", Authorization="Bearer two")).json["requests"] == []
        found = [(await page.get(f"/api/requests/{listed['trace_id']}", Authorization=f"Bearer {key}")).status
                 for key in ("one", "two")]  # fmt: skip
        assert found == [200, 404]


async def test_an_answer_whose_browser_has_gone_is_given_up(farm: Farm, llama: Path) -> None:
    async with own_stack(await farm.replica("target", llama)) as stack, page_of(stack) as page:
        host, port = page.base.removeprefix("http://").split(":")
        body = json.dumps({"token_ids": {"ids": [5]}, "max_new_tokens": 5000, "ignore_eos": True}).encode()
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /api/generate HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await reader.readuntil(b"event: delta")
        writer.close()
        meters = stack.pools.meters
        await eventually(lambda: meters.requests.total("cancelled") == 1, "the answer is given up")


@pytest.mark.parametrize("text", ["50080", "host:", "host:99999", "a b:1", "http://x:1", "[::1"])
def test_an_address_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"OUTRIDER_HTTP=.*or empty"):
        load(OrchestratorConfig, {"OUTRIDER_TOKENIZER": "somewhere", "OUTRIDER_HTTP": text})


def test_an_address_that_is_taken_is_named() -> None:
    (taken,) = bind("127.0.0.1", 0)
    with taken, pytest.raises(OSError, match=f"127.0.0.1:{taken.getsockname()[1]}"):
        bind("127.0.0.1", taken.getsockname()[1])
