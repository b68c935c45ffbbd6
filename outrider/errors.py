"""The errors of Outrider and the one table that maps them to gRPC status codes, both ways.

A code says what the caller should do: INVALID_ARGUMENT never retry, RESOURCE_EXHAUSTED another replica or
later, UNAVAILABLE another replica now, ABORTED the same request again when the other one has ended,
UNAUTHENTICATED with another key, PERMISSION_DENIED as somebody else, NOT_FOUND with another id. It does not know
gRPC beyond the names of its codes: ``status.py`` speaks it.
"""


class OutriderError(Exception):
    """Base of every error that crosses a service border. ``reason`` is its stable, machine-readable name."""

    reason = "INTERNAL"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s


class InvalidArgument(OutriderError):
    """A request field is outside its range. ``field`` is its path in the request."""

    reason = "INVALID_ARGUMENT"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class Unauthenticated(OutriderError):
    """The call does not say whose it is."""

    reason = "UNAUTHENTICATED"


class PermissionDenied(OutriderError):
    """The call says whose it is, and that one may not make it."""

    reason = "PERMISSION_DENIED"


class NotFound(InvalidArgument):
    """There is nothing of the id in ``field``, or it belongs to somebody else: the answer is the same."""

    reason = "NOT_FOUND"


class IncompatibleReplica(OutriderError):
    """Two replicas, or a replica and the orchestrator's tokenizer, cannot work together."""

    reason = "INCOMPATIBLE_REPLICA"


class ResourceExhausted(OutriderError):
    """No room now: another replica, or later."""

    reason = "RESOURCE_EXHAUSTED"


class Unavailable(OutriderError):
    """This replica does not serve: another replica, now."""

    reason = "UNAVAILABLE"


class SessionBusy(OutriderError):
    """Another request of the same session is running."""

    reason = "SESSION_BUSY"


class DeadlineExceeded(OutriderError):
    """The request's time is over."""

    reason = "DEADLINE_EXCEEDED"


class Cancelled(OutriderError):
    """The caller has gone."""

    reason = "CANCELLED"


class NonFiniteLogits(OutriderError):
    """The model gave NaN or infinite logits for a position of this request."""

    reason = "NON_FINITE_LOGITS"


class ProtocolViolation(OutriderError):
    """A peer answered what the protocol does not allow."""

    reason = "PROTOCOL_VIOLATION"


CODES: dict[type[OutriderError], str] = {
    InvalidArgument: "INVALID_ARGUMENT",
    Unauthenticated: "UNAUTHENTICATED",
    PermissionDenied: "PERMISSION_DENIED",
    NotFound: "NOT_FOUND",
    IncompatibleReplica: "FAILED_PRECONDITION",
    ResourceExhausted: "RESOURCE_EXHAUSTED",
    Unavailable: "UNAVAILABLE",
    SessionBusy: "ABORTED",
    DeadlineExceeded: "DEADLINE_EXCEEDED",
    Cancelled: "CANCELLED",
    NonFiniteLogits: "INTERNAL",
    ProtocolViolation: "INTERNAL",
    OutriderError: "INTERNAL",
}
"""Every error class and the name of its gRPC code; a test holds that it is total."""

_BY_REASON = {error.reason: error for error in CODES}
_BY_CODE: dict[str, type[OutriderError]] = {
    code: error
    for error, code in CODES.items()
    if code not in ("INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "FAILED_PRECONDITION", "ABORTED")
}


def code_of(error: Exception) -> str:
    """Name of the code for an exception; whatever is not ours is INTERNAL."""
    return CODES.get(type(error), "INTERNAL") if isinstance(error, OutriderError) else "INTERNAL"


def rebuild(code: str, message: str, reason: str = "", field: str = "") -> OutriderError:
    """The error that a peer raised, from its code, its reason, its message and the field it named.

    ``reason`` decides when the peer sent one; a bare code (gRPC's own failures) is mapped by itself.
    """
    error = _BY_REASON.get(reason) or _BY_CODE.get(code, OutriderError)
    if issubclass(error, InvalidArgument):
        return error(field, message.removeprefix(f"{field}: "))
    return error(message)
