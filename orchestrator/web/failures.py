"""Errors as HTTP answers: one table from the codes of ``outrider/errors.py`` to statuses.

It does not know the routes.
"""

import math
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from outrider.errors import InvalidArgument, OutriderError, code_of

STATUSES = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "FAILED_PRECONDITION": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""Every code of ``outrider.errors.CODES``; a test holds that it is total."""

_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    415: "INVALID_ARGUMENT",
    421: "PERMISSION_DENIED",
}
"""Of what HTTP itself refuses, in the same words as gRPC's."""


def told(error: Exception) -> dict[str, Any]:
    """What a caller is told of an error. What is not ours says nothing of its inside."""
    known = error if isinstance(error, OutriderError) else OutriderError("internal error")
    body: dict[str, Any] = {"code": code_of(known), "reason": known.reason, "message": known.message}
    if isinstance(known, InvalidArgument):
        body["field"] = known.field
    if known.retry_after_s is not None:
        body["retry_after_s"] = known.retry_after_s
    return body


def answer(error: Exception, status: int | None = None) -> JSONResponse:
    """The whole answer; ``status`` where the table's does not fit."""
    body = told(error)
    headers = {"Cache-Control": "no-store"}
    if "retry_after_s" in body:
        headers["Retry-After"] = str(max(1, math.ceil(body["retry_after_s"])))
    if body["code"] == "UNAUTHENTICATED":
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": body}, status or STATUSES[body["code"]], headers)


async def on_error(request: Request, error: Exception) -> JSONResponse:
    """For errors that a route raises. Starlette hands on what is not ours to the server, which logs it."""
    return answer(error)


async def on_refusal(request: Request, error: Exception) -> JSONResponse:
    """For what HTTP itself refuses: unknown paths, methods, and so on."""
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, error.detail, error.headers)


def refusal(status: int, message: str, headers: Any = None) -> JSONResponse:
    """An answer that no error of ours stands for."""
    told_headers = {"Cache-Control": "no-store", **(headers or {})}
    code = _CODES.get(status, "UNKNOWN")
    return JSONResponse({"error": {"code": code, "message": message}}, status, told_headers)
