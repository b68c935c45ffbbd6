"""What is tried again, where and when, is one table and one function."""

import pytest

from outrider.client.retrying import RETRIES, Retry, pause_s, retry_of
from outrider.errors import CODES, InvalidArgument, OutriderError, ResourceExhausted, SessionBusy, Unavailable


def made(error: type[OutriderError]) -> OutriderError:
    return error("field", "is bad") if issubclass(error, InvalidArgument) else error("it broke")


@pytest.mark.parametrize("error", CODES)
def test_codes_that_ask_for_it_are_tried_again_and_no_others(error: type[OutriderError]) -> None:
    by_code = {
        "UNAVAILABLE": Retry.ELSEWHERE,
        "CANCELLED": Retry.ELSEWHERE,
        "RESOURCE_EXHAUSTED": Retry.LATER,
        "ABORTED": Retry.SOON,
    }
    assert retry_of(made(error)) is by_code.get(CODES[error], Retry.NEVER)


def test_the_table_names_errors_of_ours_only() -> None:
    assert set(RETRIES) <= set(CODES)


def test_a_message_that_is_too_large_stays_too_large() -> None:
    assert retry_of(ResourceExhausted("SERVER: Received message larger than max (5000000 vs. 4194304)")) is Retry.NEVER


def test_another_address_is_tried_at_once_and_all_of_them_again_after_a_pause() -> None:
    assert pause_s(Unavailable("away"), 1, all_tried=False, luck=1.0) == 0.0
    pauses = [pause_s(Unavailable("away"), failures, all_tried=True, luck=1.0) for failures in (1, 2, 3, 4, 5, 6, 1000)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert pause_s(Unavailable("away"), 3, all_tried=True, luck=0.0) == 0.2, "luck takes off up to a half"


def test_what_the_server_said_counts_where_it_is_longer() -> None:
    assert pause_s(ResourceExhausted("full", 7.0), 1, all_tried=False, luck=0.0) == 7.0
    assert pause_s(ResourceExhausted("full", 0.0), 1, all_tried=False, luck=1.0) == 0.1
    assert pause_s(ResourceExhausted("full"), 2, all_tried=False, luck=1.0) == 0.2
    assert pause_s(Unavailable("no target", 1.0), 1, all_tried=True, luck=1.0) == 1.0


def test_a_busy_session_is_asked_again_soon_however_often() -> None:
    assert [pause_s(SessionBusy("busy"), failures, all_tried=False, luck=1.0) for failures in (1, 50)] == [0.1, 0.1]
