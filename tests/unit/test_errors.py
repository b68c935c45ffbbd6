"""One table maps every error class to a status code, and back."""

import grpc
import pytest

import orchestrator.service  # noqa: F401  (whatever it imports may define errors)
from outrider import errors
from outrider.errors import CODES, InvalidArgument, OutriderError, code_of, rebuild


def all_errors() -> list[type[OutriderError]]:
    """OutriderError and every subclass that is loaded, at any depth."""
    found, todo = [], [OutriderError]
    while todo:
        error = todo.pop()
        found.append(error)
        todo.extend(error.__subclasses__())
    return found


def make(error: type[OutriderError]) -> OutriderError:
    return error("sampling.top_k", "must be 0 to 3") if issubclass(error, InvalidArgument) else error("it broke")


def test_the_table_has_every_error_class_and_nothing_else() -> None:
    assert set(CODES) == set(all_errors())


def test_every_code_is_one_of_grpc() -> None:
    assert set(CODES.values()) <= {code.name for code in grpc.StatusCode}


def test_reasons_are_unique() -> None:
    reasons = [error.reason for error in all_errors()]
    assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize("error", all_errors())
def test_code_and_reason_give_the_same_error_back(error: type[OutriderError]) -> None:
    first = make(error)
    field = first.field if isinstance(first, InvalidArgument) else ""
    again = rebuild(code_of(first), first.message, first.reason, field)
    assert type(again) is error
    assert again.message == first.message


@pytest.mark.parametrize("foreign", [ValueError("secret"), KeyError("k"), RuntimeError()])
def test_whatever_is_not_ours_is_internal(foreign: Exception) -> None:
    assert code_of(foreign) == "INTERNAL"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("UNAVAILABLE", errors.Unavailable),
        ("RESOURCE_EXHAUSTED", errors.ResourceExhausted),
        ("DEADLINE_EXCEEDED", errors.DeadlineExceeded),
        ("CANCELLED", errors.Cancelled),
        ("UNAUTHENTICATED", errors.Unauthenticated),
    ],
)
def test_a_bare_code_of_grpc_itself_says_what_to_do(code: str, error: type[OutriderError]) -> None:
    assert type(rebuild(code, "from the transport")) is error


@pytest.mark.parametrize("code", ["UNKNOWN", "INTERNAL", "UNIMPLEMENTED", "ABORTED", "FAILED_PRECONDITION"])
def test_a_bare_code_that_says_nothing_is_the_base_error(code: str) -> None:
    assert type(rebuild(code, "?")) is OutriderError


def test_an_unknown_reason_falls_back_to_the_code() -> None:
    assert type(rebuild("UNAVAILABLE", "newer peer", reason="SOMETHING_NEW")) is errors.Unavailable


def test_every_public_error_is_documented() -> None:
    assert all(error.__doc__ for error in all_errors())
