"""A body becomes a message, or is refused by the name of the field that is wrong; nothing in it is ignored."""

import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from orchestrator.web import calls
from orchestrator.web.calls import MAX_BODY_BYTES, CallContext, parse, query, read_generate
from outrider.errors import InvalidArgument
from tests.unit.web.asgi import Client

JSON = {"content-type": "application/json; charset=utf-8"}


def test_names_may_be_written_as_in_the_protocol_or_as_json_does() -> None:
    request = parse(b'{"prompt": "x", "max_new_tokens": 5, "sampling": {"topK": 3, "seed": "18446744073709551615"}}')
    assert (request.prompt, request.max_new_tokens, request.sampling.top_k) == ("x", 5, 3)
    assert request.sampling.seed == 2**64 - 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"promt": "x"}', "promt"),
        ('{"sampling": {"heat": 1}}', "sampling.heat"),
        ('{"sampling": {"temperature": "hot"}}', "sampling.temperature"),
        ('{"max_new_tokens": 1.5}', "max_new_tokens"),
        ('{"max_new_tokens": 99999999999}', "max_new_tokens"),
        ('{"speculation": {"mode": "SOMETIMES"}}', "speculation.mode"),
        ('{"stop": "x"}', "stop"),
        ('{"stop_token_ids": [-1]}', "stop_token_ids"),
        ('{"prompt": "a", "prompt": "b"}', "request"),
        ('{"prompt": "a", "chat": {}}', "request"),
        ("[]", "request"),
        ('"prompt"', "request"),
        ("null", "request"),
        ("", "request"),
        ("{", "request"),
        ('{"chat":' * 5000, "request"),
    ],
)
def test_what_is_wrong_is_refused_by_its_path(body: str, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse(body.encode())
    assert refused.value.field == field
    assert "\n" not in refused.value.message
    assert "GenerateRequest" not in refused.value.message.replace('"outrider.v1.GenerateRequest"', "")


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="UTF-8"):
        parse(b'{"prompt": "\xff"}')


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that says what it read, or why not."""
    try:
        message = await read_generate(Request(scope, receive))
        response = JSONResponse({"prompt": message.prompt})
    except HTTPException as error:
        response = JSONResponse({}, error.status_code)
    await response(scope, receive, send)


async def test_a_body_may_come_in_parts() -> None:
    client = await Client(headers=JSON, body=[b'{"pro', b'mpt":', b' "x"}']).ask(reading)
    assert json.loads(client.text) == {"prompt": "x"}


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_body_of_a_kind_that_a_form_could_send_is_refused(kind: str) -> None:
    assert (await Client(headers={"content-type": kind}, body=[b"{}"]).ask(reading)).status == 415


async def test_a_body_that_is_too_large_is_refused_as_soon_as_it_is() -> None:
    """What would still come is not read."""
    parts = [b'{"prompt": "', *[b"x" * (MAX_BODY_BYTES // 2)] * 2]
    assert (await Client(headers=JSON, body=[*parts, b'"}']).ask(reading)).status == 413


async def test_a_body_that_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_BODY_S", 0.0)
    assert (await Client(headers=JSON, body=[]).ask(reading)).status == 408


def request_with(path: str = "/", headers: dict[str, str] | None = None) -> Request:
    return Request(Client(path, headers=headers or {})._scope())


def test_a_parameter_that_a_route_does_not_know_or_has_twice_is_refused_by_name() -> None:
    assert query(request_with("/?tenant=acme"), "tenant") == {"tenant": "acme"}
    for wrong in ("/?tennant=acme", "/?tenant=a&tenant=b"):
        with pytest.raises(InvalidArgument, match="known here: tenant"):
            query(request_with(wrong), "tenant")


def test_a_call_has_the_key_and_the_trace_of_its_headers_and_no_deadline() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    context: Any = CallContext.of(request_with(headers={"Authorization": "Bearer k", "traceparent": trace, "x": "y"}))
    assert dict(context.invocation_metadata()) == {"authorization": "Bearer k", "traceparent": trace}
    assert context.time_remaining() is None
