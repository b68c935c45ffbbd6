"""The routes: the page, what it asks for, and probes. Calls go to the service as calls over gRPC do, so API keys,
tenants, limits and cancellation are the same. It does not know sockets.
"""

import re

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from orchestrator.service import OrchestratorService
from orchestrator.tenants import Tenants
from orchestrator.web.answering import Answering, Spans, as_dict
from orchestrator.web.calls import CallContext, query, read_generate
from orchestrator.web.failures import on_error, on_refusal
from orchestrator.web.files import Files
from orchestrator.web.guard import Guard
from outrider.errors import OutriderError
from outrider.v1 import orchestrator_pb2 as pb

_FRESH = {"Cache-Control": "no-store"}
_NO_FILE_NAME = re.compile(r"[^0-9A-Za-z._-]")


class Routes:
    """A handler each."""

    def __init__(self, service: OrchestratorService, tenants: Tenants) -> None:
        self._service = service
        self._tenants = tenants

    async def alive(self, request: Request) -> Response:
        """The process answers."""
        return PlainTextResponse("ok\n", headers=_FRESH)

    async def ready(self, request: Request) -> Response:
        """Whether there is a target to answer with."""
        if self._service.looking.info(0).target.state == pb.REPLICA_STATE_READY:
            return PlainTextResponse("ready\n", headers=_FRESH)
        return PlainTextResponse("no target can be used; /api/info says why\n", 503, _FRESH)

    async def info(self, request: Request) -> Response:
        """GetInfo."""
        query(request)
        return JSONResponse(
            as_dict(await self._service.GetInfo(pb.GetInfoRequest(), CallContext.of(request))), 200, _FRESH
        )

    async def requests(self, request: Request) -> Response:
        """ListRequests."""
        asked = pb.ListRequestsRequest(**query(request, "tenant"))
        listed = await self._service.ListRequests(asked, CallContext.of(request))
        return JSONResponse(as_dict(listed), 200, _FRESH)

    async def trace(self, request: Request) -> Response:
        """GetTrace, as a file."""
        name = request.path_params["id"]
        asked = pb.GetTraceRequest(id=name, **query(request, "tenant"))
        found = await self._service.GetTrace(asked, CallContext.of(request))
        file = f'attachment; filename="outrider-{_NO_FILE_NAME.sub("_", name)}.json"'
        return Response(found.otlp_json, 200, {**_FRESH, "Content-Disposition": file}, "application/json")

    async def generate(self, request: Request) -> ASGIApp:
        """Generate, as server-sent events."""
        query(request)
        asked, context = await read_generate(request), CallContext.of(request)
        tenant = self._tenants.tenant_of(dict(context.metadata).get("authorization", ""), asked.tenant)
        looking = self._service.looking
        events = self._service.Generate(asked, context)
        return Answering(events, Spans(looking), lambda session_id: looking.find(tenant, session_id))


async def _to_page(request: Request) -> Response:
    return RedirectResponse("ui")


def application(service: OrchestratorService, tenants: Tenants, local: bool) -> ASGIApp:
    """All of it. ``local``: it listens for this machine alone."""
    routes, files = Routes(service, tenants), Files()
    app = Starlette(
        routes=[
            Route("/", _to_page),
            Route("/ui", files.page),
            Route("/ui/{name}", files.file),
            Route("/healthz", routes.alive),
            Route("/readyz", routes.ready),
            Route("/api/info", routes.info),
            Route("/api/requests", routes.requests),
            Route("/api/requests/{id}", routes.trace),
            Route("/api/generate", routes.generate, methods=["POST"]),
        ],
        exception_handlers={OutriderError: on_error, HTTPException: on_refusal, Exception: on_error},
    )
    return Guard(app, local)
