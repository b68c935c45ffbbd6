"""Every error has a status, and says what a caller needs to know and nothing else."""

import json
from typing import Any

import pytest
from starlette.responses import Response

from orchestrator.web.failures import STATUSES, answer, refusal, told
from outrider.errors import (
    CODES,
    InvalidArgument,
    NotFound,
    OutriderError,
    ResourceExhausted,
    SessionBusy,
    Unauthenticated,
)


def error_in(response: Response) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(response.body))["error"]
    return found


def test_every_code_has_a_status_and_no_status_stands_for_nothing() -> None:
    assert set(STATUSES) == set(CODES.values())
    assert all(400 <= status < 600 for status in STATUSES.values())


@pytest.mark.parametrize("kind", [kind for kind in CODES if not issubclass(kind, InvalidArgument)])
def test_an_error_is_told_with_its_code_and_reason(kind: type[OutriderError]) -> None:
    response = answer(kind("words"))
    assert response.status_code == STATUSES[CODES[kind]]
    assert error_in(response) == {"code": CODES[kind], "reason": kind.reason, "message": "words"}


def test_a_wrong_field_is_named() -> None:
    assert told(InvalidArgument("sampling.top_p", "must be above 0"))["field"] == "sampling.top_p"


def test_an_unknown_id_is_not_found() -> None:
    response = answer(NotFound("session_id", "unknown"))
    assert response.status_code == 404
    assert error_in(response)["field"] == "session_id"


@pytest.mark.parametrize(("delay_s", "header"), [(0.2, "1"), (2.0, "2"), (2.1, "3")])
def test_whoever_comes_too_early_is_told_how_long_to_wait_in_whole_seconds_that_suffice(
    delay_s: float, header: str
) -> None:
    response = answer(ResourceExhausted("full", retry_after_s=delay_s))
    assert (response.status_code, response.headers["retry-after"]) == (429, header)
    assert error_in(response)["retry_after_s"] == delay_s


def test_a_missing_key_says_how_one_is_given() -> None:
    assert answer(Unauthenticated("no key")).headers["www-authenticate"] == "Bearer"


def test_what_is_not_ours_says_nothing_of_its_inside() -> None:
    response = answer(RuntimeError("the secret is 42"))
    assert (response.status_code, error_in(response)["message"]) == (500, "internal error")


def test_what_http_refuses_is_told_in_the_same_form() -> None:
    assert error_in(refusal(404, "no such path")) == {"code": "NOT_FOUND", "message": "no such path"}


def test_no_error_is_kept_by_a_cache() -> None:
    assert {response.headers["cache-control"] for response in (answer(SessionBusy("x")), refusal(404, "x"))} == {
        "no-store"
    }
