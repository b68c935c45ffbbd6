"""Errors as gRPC statuses with typed details (AIP-193), and back. It knows the wire form, not the reasons."""

from collections.abc import Iterable

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from outrider.errors import InvalidArgument, OutriderError, Unavailable, code_of, rebuild

DOMAIN = "outrider"


def _packed(details: Iterable[Message]) -> Iterable[any_pb2.Any]:
    for detail in details:
        box = any_pb2.Any()
        box.Pack(detail)
        yield box


def _details(error: OutriderError) -> list[Message]:
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)]
    if isinstance(error, InvalidArgument):
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=error.message)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return details


def to_status(error: Exception) -> grpc.Status:
    """The status that a server ends a call with. What is not ours says nothing of its inside."""
    known = error if isinstance(error, OutriderError) else OutriderError("internal error")
    code = code_pb2.Code.Value(code_of(known))
    message = status_pb2.Status(code=code, message=known.message, details=_packed(_details(known)))
    status: grpc.Status = rpc_status.to_status(message)
    return status


_BROKEN = ("CANCELLED", "UNKNOWN", "INTERNAL")
"""Codes that gRPC gives to a call whose peer has died or has let go of it."""


def from_replica(error: grpc.aio.AioRpcError) -> OutriderError:
    """As ``from_rpc_error``, of a call to a server of ours: it names a reason unless it has gone."""
    if not reason_of(error) and error.code().name in _BROKEN:
        return Unavailable(f"the call broke: {error.details() or error.code().name}")
    return from_rpc_error(error)


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """The reason that a server of ours named, or nothing: then gRPC itself ended the call."""
    return _read_details(error)[0]


def from_rpc_error(error: grpc.aio.AioRpcError) -> OutriderError:
    """The error that a call ended with, as the class that the server raised."""
    reason, field, retry_after_s = _read_details(error)
    rebuilt = rebuild(error.code().name, error.details() or error.code().name, reason, field)
    rebuilt.retry_after_s = retry_after_s
    return rebuilt


def _read_details(error: grpc.aio.AioRpcError) -> tuple[str, str, float | None]:
    """Reason, field and delay that came with a status, as far as they did."""
    reason = field = ""
    retry_after_s: float | None = None
    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):  # details that are junk or contradict the status: the bare code counts
        status = None
    for box in status.details if status else ():
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if box.Unpack(info) and info.domain == DOMAIN:
            reason = info.reason
        elif box.Unpack(bad) and bad.field_violations:
            field = bad.field_violations[0].field
        elif box.Unpack(retry):
            retry_after_s = retry.retry_delay.ToNanoseconds() / 1e9
    return reason, field, retry_after_s
