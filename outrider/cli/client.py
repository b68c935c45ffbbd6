"""A small client of the orchestrator for the commands: one request, a stream of events, errors of our own."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import grpc

from outrider.channel import CLIENT_OPTIONS
from outrider.errors import OutriderError, Unavailable
from outrider.sampling import SamplingParams
from outrider.status import from_rpc_error
from outrider.v1 import common_pb2, orchestrator_pb2, orchestrator_pb2_grpc

Event = orchestrator_pb2.GenerateResponse
Info = orchestrator_pb2.GetInfoResponse


@dataclass(frozen=True, slots=True)
class Ask:
    """One turn. ``draft_tokens`` None leaves speculation to the server, 0 turns it off, more fixes it.

    ``raw`` sends the text as it is instead of as a chat message.
    """

    text: str
    raw: bool = False
    system: str = ""
    params: SamplingParams = field(default_factory=SamplingParams)
    seed: int | None = None
    max_new_tokens: int | None = None
    stop: tuple[str, ...] = ()
    draft_tokens: int | None = None
    session_id: str = ""
    keep_session: bool = False

    def message(self) -> orchestrator_pb2.GenerateRequest:
        """The request on the wire."""
        request = orchestrator_pb2.GenerateRequest(
            session_id=self.session_id,
            sampling=common_pb2.SamplingParams(
                temperature=self.params.temperature,
                top_k=self.params.top_k,
                top_p=self.params.top_p,
                min_p=self.params.min_p,
                seed=self.seed,
            ),
            max_new_tokens=self.max_new_tokens,
            stop=self.stop,
            speculation=self._speculation(),
            keep_session=self.keep_session,
        )
        if self.raw:
            request.prompt = self.text
        else:
            messages = [("system", self.system)] if self.system else []
            for role, content in (*messages, ("user", self.text)):
                request.chat.messages.add(role=role, content=content)
        return request

    def _speculation(self) -> orchestrator_pb2.Speculation:
        if self.draft_tokens is None:
            return orchestrator_pb2.Speculation(mode=orchestrator_pb2.SPECULATION_MODE_AUTO)
        if self.draft_tokens == 0:
            return orchestrator_pb2.Speculation(mode=orchestrator_pb2.SPECULATION_MODE_OFF)
        mode = orchestrator_pb2.SPECULATION_MODE_FIXED
        return orchestrator_pb2.Speculation(mode=mode, draft_tokens=self.draft_tokens)


class Client:
    """Calls to one orchestrator. Every failure is an OutriderError."""

    def __init__(self, channel: grpc.aio.Channel, address: str) -> None:
        self._stub = orchestrator_pb2_grpc.OrchestratorServiceStub(channel)
        self._address = address

    def _rebuilt(self, error: grpc.aio.AioRpcError) -> OutriderError:
        rebuilt = from_rpc_error(error)
        if isinstance(rebuilt, Unavailable) and "failed to connect" in rebuilt.message.lower():
            return Unavailable(f"no orchestrator at {self._address}; start one with `outrider up`")
        return rebuilt

    async def info(self) -> Info:
        """The serving pair."""
        try:
            return await self._stub.GetInfo(orchestrator_pb2.GetInfoRequest(), timeout=5.0)
        except grpc.aio.AioRpcError as error:
            raise self._rebuilt(error) from None

    async def generate(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """The events of one answer."""
        async with aclosing(self.generate_raw(ask.message())) as events:
            async for event in events:
                yield event

    async def generate_raw(self, request: orchestrator_pb2.GenerateRequest) -> AsyncGenerator[Event, None]:
        """The events of one answer to a request as it goes over the wire."""
        call = self._stub.Generate(request)
        try:
            async for event in call:
                yield event
        except grpc.aio.AioRpcError as error:
            raise self._rebuilt(error) from None
        finally:
            call.cancel()


@asynccontextmanager
async def connect(address: str) -> AsyncGenerator[Client, None]:
    """A client of the orchestrator at ``address``."""
    async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel:
        yield Client(channel, address)
