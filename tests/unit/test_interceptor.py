"""What a handler raises becomes a status; what gRPC raises in a handler is left to gRPC."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from typing import Any

import grpc
import pytest

from outrider import incoming, interceptor
from outrider.errors import InvalidArgument
from outrider.guard import Guard
from outrider.instruments import Histogram
from outrider.interceptor import GuardInterceptor
from outrider.v1.orchestrator_pb2 import GetInfoRequest

NOTHING_ODD = GetInfoRequest()


class Stopped(grpc.aio.BaseError):
    """What gRPC raises in a handler whose server has stopped under the call."""


class Aborted(Exception):
    """The end of a call whose handler was answered by a status."""


class Context:
    """Records the status that a handler's call was ended with."""

    status: Any = None
    preset: Any = None

    async def abort(self, code: Any, details: str) -> None:
        raise Aborted

    async def abort_with_status(self, status: Any) -> None:
        self.status = status
        raise Aborted

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_subject_alternative_name": [b"outrider-draft", b"spiffe://cluster/draft"]}

    def code(self) -> Any:
        return self.status.code if self.status is not None else self.preset


class Details:
    method = "/outrider.v1.Service/Call"


async def messages(*requests: Any) -> AsyncIterator[Any]:
    """What a caller sends, and no more."""
    for request in requests:
        yield request


async def silence() -> AsyncIterator[Any]:
    """A caller that opens a call and says nothing."""
    await asyncio.sleep(600)
    yield NOTHING_ODD


async def call(
    error: Exception,
    streams: bool,
    context: Context,
    request: Any = NOTHING_ODD,
    requests: AsyncIterator[Any] | None = None,
    peers: Collection[str] = (),
) -> None:
    """Call a guarded handler that raises once it has its first message."""

    async def stream(requests: Any, context: Any) -> AsyncIterator[bytes]:
        async for _ in requests:
            yield b""
            raise error

    async def unary(request: Any, context: Any) -> bytes:
        raise error

    async def continuation(details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(stream) if streams else grpc.unary_unary_rpc_method_handler(unary)

    handler = await GuardInterceptor(Guard(peers)).intercept_service(continuation, Details())
    if not streams:
        await handler.stream_unary(requests or messages(request), context)
        return
    async for _ in handler.stream_stream(requests or messages(request), context):
        pass


@pytest.mark.parametrize("streams", [False, True])
def test_an_error_of_ours_becomes_its_status_and_no_log(streams: bool, caplog: pytest.LogCaptureFixture) -> None:
    context = Context()
    with pytest.raises(Aborted):
        asyncio.run(call(InvalidArgument("round", "must be 0"), streams, context))
    assert context.status.code is grpc.StatusCode.INVALID_ARGUMENT
    assert not caplog.records


def test_a_request_with_an_unknown_field_never_reaches_its_handler() -> None:
    context = Context()
    with pytest.raises(Aborted):
        asyncio.run(call(KeyError("called"), False, context, GetInfoRequest.FromString(b"\x98\x06\x01")))
    assert context.status.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "numbers [99]" in context.status.details


@pytest.mark.parametrize("streams", [False, True])
def test_an_unforeseen_error_becomes_internal_and_is_logged(streams: bool, caplog: pytest.LogCaptureFixture) -> None:
    context = Context()
    with pytest.raises(Aborted):
        asyncio.run(call(KeyError("bug"), streams, context))
    assert context.status.code is grpc.StatusCode.INTERNAL
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


@pytest.mark.parametrize("streams", [False, True])
def test_what_grpc_raises_passes_through_unlogged(streams: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A call whose server has stopped has nobody to answer; it is no failure of the handler."""
    context = Context()
    with pytest.raises(Stopped):
        asyncio.run(call(Stopped("Server already stopped."), streams, context))
    assert context.status is None and not caplog.records


async def test_each_call_is_counted_with_its_method_and_status(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Histogram(interceptor.calls.metric)
    monkeypatch.setattr(interceptor, "calls", calls)
    for streams in (False, True):
        with pytest.raises(Aborted):
            await call(InvalidArgument("field", "is wrong"), streams, Context())
    assert calls.count("outrider.v1.Service/Call", "INVALID_ARGUMENT") == calls.count() == 2


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_whose_caller_has_gone_counts_as_cancelled(monkeypatch: pytest.MonkeyPatch, streams: bool) -> None:
    calls = Histogram(interceptor.calls.metric)
    monkeypatch.setattr(interceptor, "calls", calls)
    gone: Any = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await call(gone, streams, Context())
    assert calls.count("outrider.v1.Service/Call", "CANCELLED") == 1


@pytest.mark.parametrize("streams", [False, True])
async def test_a_caller_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch, streams: bool) -> None:
    """Whoever opens many calls and sends nothing would otherwise hold all the places for as long as he likes."""
    monkeypatch.setattr(incoming, "FIRST_MESSAGE_S", 0.01)
    context = Context()
    with pytest.raises(Aborted):
        await call(KeyError("called"), streams, context, requests=silence())
    assert context.status.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "first message" in context.status.details


@pytest.mark.parametrize("count", [0, 2])
async def test_a_call_that_takes_one_message_has_one(count: int) -> None:
    """What is silently left out is answered as if it had been read."""
    context = Context()
    with pytest.raises(Aborted):
        await call(KeyError("called"), False, context, requests=messages(*[NOTHING_ODD] * count))
    assert context.status.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "takes one message" in context.status.details
    await call(KeyError("never"), True, Context(), requests=messages())


@pytest.mark.parametrize("streams", [False, True])
async def test_only_peers_may_call(streams: bool) -> None:
    context = Context()
    with pytest.raises(Aborted):
        await call(KeyError("called"), streams, context, peers=("outrider-orchestrator",))
    assert context.status.code is grpc.StatusCode.PERMISSION_DENIED
    assert "outrider-draft, spiffe://cluster/draft" in context.status.details
    for name in ("outrider-draft", "spiffe://cluster/draft"):
        let_in = Context()
        with pytest.raises(Aborted):
            await call(InvalidArgument("round", "called"), streams, let_in, peers=("x", name))
        assert let_in.status.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_only_what_is_left_out_on_purpose_is_unimplemented(caplog: pytest.LogCaptureFixture) -> None:
    """gRPC's generated servicers set the code first; anything else is a fault of ours."""
    for code, expected in ((grpc.StatusCode.UNIMPLEMENTED, "unserved"), (None, "logged")):
        context = Context()
        context.preset = code
        with pytest.raises(Aborted):
            await call(NotImplementedError("somewhere deep"), False, context)
        assert (context.status is None) == (expected == "unserved")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
