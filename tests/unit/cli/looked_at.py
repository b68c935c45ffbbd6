"""Orchestrators that are only looked at, over real gRPC: what they say of themselves is the test's to set."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from outrider import semconv
from outrider.errors import InvalidArgument, OutriderError
from outrider.server import Server
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1 import orchestrator_pb2_grpc
from tests.unit.cli.traces import Trace, otlp

NAME = pb.DESCRIPTOR.services_by_name["OrchestratorService"].full_name


@dataclass(eq=False)
class LookedAt(orchestrator_pb2_grpc.OrchestratorServiceServicer):
    """Remembers ``traces``, the last one last, and tells ``infos`` one after another, then the last one again.
    ``error``: instead of any answer."""

    traces: list[Trace] = field(default_factory=list)
    infos: list[pb.GetInfoResponse] = field(default_factory=list)
    error: OutriderError | None = None
    asked: list[Any] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _note(self, request: Any, context: Any) -> None:
        self.asked.append(request)
        self.metadata.append(dict(context.invocation_metadata() or ()))
        if self.error is not None:
            raise self.error

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> AsyncIterator[pb.GenerateResponse]:
        raise InvalidArgument("request", "nobody answers here")
        yield pb.GenerateResponse()

    async def GetInfo(self, request: pb.GetInfoRequest, context: Any) -> pb.GetInfoResponse:
        self._note(request, context)
        return self.infos.pop(0) if len(self.infos) > 1 else self.infos[0]

    async def ListRequests(self, request: pb.ListRequestsRequest, context: Any) -> pb.ListRequestsResponse:
        self._note(request, context)
        return pb.ListRequestsResponse(requests=[summary(each) for each in reversed(self.traces)])

    async def GetTrace(self, request: pb.GetTraceRequest, context: Any) -> pb.GetTraceResponse:
        self._note(request, context)
        for each in reversed(self.traces):
            if request.id in (each.session_id, each.trace_id):
                return pb.GetTraceResponse(otlp_json=otlp(each.spans))
        raise InvalidArgument("id", "unknown")


def summary(trace: Trace) -> pb.RequestSummary:
    """As an orchestrator lists it."""
    root = trace.spans[0]
    return pb.RequestSummary(
        session_id=trace.session_id,
        trace_id=trace.trace_id,
        started_unix_ns=root.start_ns,
        took_us=(root.end_ns - root.start_ns) // 1000,
        outcome=root.attributes[semconv.OUTCOME],
        completion_tokens=3,
        rounds=2,
        proposed=2,
        accepted=1,
        first_token_us=12_000,
    )


@contextlib.asynccontextmanager
async def looked_at(*orchestrators: LookedAt) -> AsyncIterator[str]:
    """Their addresses, with commas, while they serve."""
    servers = [Server("127.0.0.1:0", [NAME], drain_s=0.0) for _ in orchestrators]
    try:
        for server, each in zip(servers, orchestrators, strict=True):
            orchestrator_pb2_grpc.add_OrchestratorServiceServicer_to_server(each, server.grpc_server)
            await server.start()
            each.port = server.port
        yield ",".join(each.address for each in orchestrators)
    finally:
        for server in servers:
            await server.drain()
