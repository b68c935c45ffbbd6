"""What a client does after an error: one table, and how long it waits. It has no clock and does no I/O."""

from enum import Enum

from outrider.errors import Cancelled, OutriderError, ResourceExhausted, SessionBusy, Unavailable

_FIRST_S = 0.1
_MOST_S = 2.0
_BUSY_S = 0.1
_TOO_LARGE = "larger than max"
"""Part of what gRPC says, under a code that otherwise means "later", of a message that nobody will ever take."""


class Retry(Enum):
    """Elsewhere now; later; soon, when another answer of the session has ended; or never: it is the caller's."""

    ELSEWHERE = "elsewhere"
    LATER = "later"
    SOON = "soon"
    NEVER = "never"


RETRIES: dict[type[OutriderError], Retry] = {
    Unavailable: Retry.ELSEWHERE,
    Cancelled: Retry.ELSEWHERE,
    ResourceExhausted: Retry.LATER,
    SessionBusy: Retry.SOON,
}
"""Whatever is not in it is the caller's. Calls that broke are Unavailable (``status.from_replica``), and Cancelled was
said by the server: what the caller cancels raises no error of ours."""


def retry_of(error: OutriderError) -> Retry:
    """What to do after an error."""
    if _TOO_LARGE in error.message:
        return Retry.NEVER
    return RETRIES.get(type(error), Retry.NEVER)


def pause_s(error: OutriderError, failures: int, all_tried: bool, luck: float) -> float:
    """Seconds until the next attempt. ``failures`` in a row, this one included; ``all_tried``: no address is left that
    has not failed since the last pause; ``luck`` from 0 to 1 spreads clients that fail together."""
    retry = retry_of(error)
    if retry is Retry.ELSEWHERE and not all_tried:
        return 0.0
    spread = 0.5 + luck / 2
    if retry is Retry.SOON:
        return _BUSY_S * spread
    backoff = min(_MOST_S, _FIRST_S * 2.0 ** (min(failures, 16) - 1)) * spread
    return max(error.retry_after_s, backoff) if error.retry_after_s is not None else backoff
