"""What a request is told that is not let in. It names the limit, its setting and the tenant; it decides nothing."""

from orchestrator.limits import Limits
from outrider.errors import DeadlineExceeded, OutriderError, ResourceExhausted

_LEAST_RETRY_S = 1.0


def in_debt(tenant: str, limits: Limits, debt_s: float) -> OutriderError:
    """It may come back when it is out of debt."""
    words = f"tenant {tenant!r} has used up its {limits.tokens_per_s:g} tokens per second (tokens_per_s)"
    return ResourceExhausted(words, retry_after_s=debt_s)


def crowded(tenant: str, most_waiting: int, patience_s: float) -> OutriderError:
    """There is no place to wait in."""
    words = (
        f"the {most_waiting} requests that may wait do so already (OUTRIDER_MAX_WAITING),"
        f" and no tenant has more of them than {tenant!r}"
    )
    return _later(words, patience_s)


def out_of_patience(tenant: str, what_is_full: str, patience_s: float) -> OutriderError:
    """Nobody has made room for it."""
    return _later(f"tenant {tenant!r} has waited {patience_s:g} s (OUTRIDER_ADMISSION_S): {what_is_full}", patience_s)


def out_of_time(tenant: str, what_is_full: str) -> OutriderError:
    """Nobody has made room for it before its own deadline."""
    return DeadlineExceeded(f"the request's time was over while tenant {tenant!r} waited: {what_is_full}")


def tenant_full(tenant: str, limits: Limits) -> str:
    """What a tenant's requests wait for that has all its answers running."""
    return f"all {limits.max_answers} answers of tenant {tenant!r} are running (max_answers)"


def all_full(most_answers: int) -> str:
    """What every tenant's requests wait for."""
    return f"all {most_answers} answers of this orchestrator are running (OUTRIDER_MAX_ANSWERS)"


def _later(words: str, patience_s: float) -> OutriderError:
    return ResourceExhausted(words, retry_after_s=max(_LEAST_RETRY_S, patience_s / 2))
