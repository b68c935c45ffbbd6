"""Errors keep class, field, message and delay over the wire form of a status."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from outrider.errors import InvalidArgument, OutriderError, ResourceExhausted, Unavailable, code_of
from outrider.status import DOMAIN, from_replica, from_rpc_error, to_status
from tests.unit.test_errors import all_errors, make


def as_received(status: grpc.Status) -> grpc.aio.AioRpcError:
    """The exception that a client's call ends with when a server answers this status."""
    return grpc.aio.AioRpcError(
        status.code,
        initial_metadata=grpc.aio.Metadata(),
        trailing_metadata=grpc.aio.Metadata(*status.trailing_metadata),
        details=status.details,
    )


def bare(code: grpc.StatusCode, details: str = "") -> grpc.aio.AioRpcError:
    """A failure of gRPC itself, without typed details."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


def details_of(status: grpc.Status) -> status_pb2.Status:
    return status_pb2.Status.FromString(dict(status.trailing_metadata)["grpc-status-details-bin"])


@pytest.mark.parametrize("error", all_errors())
def test_an_error_arrives_as_its_own_class_with_its_message(error: type[OutriderError]) -> None:
    first = make(error)
    again = from_rpc_error(as_received(to_status(first)))
    assert type(again) is error
    assert again.message == first.message
    assert str(again) == str(first)


@pytest.mark.parametrize("error", all_errors())
def test_the_status_has_the_code_of_the_table(error: type[OutriderError]) -> None:
    assert to_status(make(error)).code.name == code_of(make(error))


def test_the_field_of_an_invalid_argument_arrives() -> None:
    again = from_rpc_error(as_received(to_status(InvalidArgument("stop[3]", "must have 1 to 256 characters"))))
    assert isinstance(again, InvalidArgument)
    assert again.field == "stop[3]"


def test_the_delay_is_sent_as_retry_info_and_arrives() -> None:
    status = to_status(ResourceExhausted("no room", retry_after_s=1.25))
    retry = error_details_pb2.RetryInfo()
    assert any(box.Unpack(retry) for box in details_of(status).details)
    assert retry.retry_delay.ToNanoseconds() == 1_250_000_000
    assert from_rpc_error(as_received(status)).retry_after_s == 1.25


def test_no_retry_info_unless_a_delay_is_known() -> None:
    again = from_rpc_error(as_received(to_status(Unavailable("gone"))))
    assert again.retry_after_s is None


def test_a_foreign_exception_says_nothing_of_its_inside() -> None:
    status = to_status(RuntimeError("password is hunter2"))
    assert status.code is grpc.StatusCode.INTERNAL
    assert "hunter2" not in status.details + repr(status.trailing_metadata)


def test_a_failure_of_the_transport_is_mapped_by_its_code() -> None:
    again = from_rpc_error(bare(grpc.StatusCode.UNAVAILABLE, "connection refused"))
    assert type(again) is Unavailable
    assert again.message == "connection refused"


def test_a_failure_without_words_is_named_by_its_code() -> None:
    assert from_rpc_error(bare(grpc.StatusCode.UNKNOWN)).message == "UNKNOWN"


def test_the_reason_of_another_domain_is_not_believed() -> None:
    status = to_status(Unavailable("x"))
    foreign = details_of(status)
    info = error_details_pb2.ErrorInfo(reason="SESSION_BUSY", domain="example.com")
    assert info.domain != DOMAIN
    foreign.details[0].Pack(info)
    error = grpc.aio.AioRpcError(
        status.code,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(("grpc-status-details-bin", foreign.SerializeToString())),
        details="x",
    )
    assert type(from_rpc_error(error)) is Unavailable


BROKEN = [grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL]


@pytest.mark.parametrize("code", BROKEN)
def test_a_replica_whose_call_broke_without_a_reason_is_away(code: grpc.StatusCode) -> None:
    assert isinstance(from_replica(bare(code, "Stream removed")), Unavailable)


@pytest.mark.parametrize("error", all_errors())
def test_what_a_replica_raised_itself_stays_what_it_is(error: type[OutriderError]) -> None:
    assert type(from_replica(as_received(to_status(make(error))))) is error
