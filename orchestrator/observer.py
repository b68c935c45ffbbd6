"""One request as seen from outside: when it came, waited, spoke and ended; its span, its numbers, its line in the log.

It knows times and outcomes, not how an answer is made. No text of a prompt or an answer comes here.
"""

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import Span, SpanContext, StatusCode

from orchestrator.meters import Meters
from orchestrator.recorder import Recorder, RequestTrace
from outrider import semconv, spans
from outrider.errors import DeadlineExceeded, OutriderError, ResourceExhausted, Unavailable

log = logging.getLogger("orchestrator.requests")
_OURS = (Unavailable, DeadlineExceeded, ResourceExhausted)
"""Errors that say something of this system, not of the request."""


@dataclass(frozen=True, slots=True)
class SlowRule:
    """A request is slow whose first token, or whose mean later one, took longer than this, in seconds."""

    first_s: float
    token_s: float


@dataclass(slots=True)
class Seen:
    """What is seen of one request. ``facts`` grow until its line is written; times are of ``time.perf_counter``."""

    trace: RequestTrace
    meters: Meters
    arrived: float
    outcome: str = "cancelled"  # until something else is known; a client may go as soon as it has been told all
    model: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    queue_s: float = 0.0
    tokens: int = 0
    first: float | None = None
    last: float = 0.0

    @property
    def span(self) -> Span:
        """The request's."""
        return self.trace.root

    def belongs_to(self, tenant: str) -> None:
        """Whose it is."""
        self.trace.tenant = tenant
        if tenant:
            self.facts["tenant"] = tenant
            self.span.set_attribute(semconv.TENANT, tenant)

    def answers(self, session_id: str) -> None:
        """Of which session it is."""
        self.trace.session_id = self.facts["session"] = session_id
        self.span.set_attribute(semconv.SESSION_ID, session_id)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Until it is let in."""
        with spans.child(self.span, semconv.SPAN_QUEUE):
            try:
                yield
            finally:
                self.queue_s = time.perf_counter() - self.arrived
                self.meters.queue_s.record(self.queue_s)

    @contextlib.contextmanager
    def prompting(self) -> Iterator[None]:
        """While its prompt is made."""
        with spans.child(self.span, semconv.SPAN_PROMPT):
            yield

    def told(self, tokens: int) -> None:
        """Its client is told so many tokens now."""
        if tokens:
            self.last = time.perf_counter()
            self.first = self.first or self.last
            self.tokens += tokens

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first token; None without one."""
        return self.first - self.arrived if self.first is not None else None

    @property
    def tpot_s(self) -> float | None:
        """Seconds per later token; None without one."""
        return (self.last - self.first) / (self.tokens - 1) if self.first is not None and self.tokens > 1 else None

    def is_slow(self, rule: SlowRule) -> bool:
        """By the rule."""
        return (self.ttft_s or 0.0) > rule.first_s or (self.tpot_s or 0.0) > rule.token_s


class Observer:
    """Watches every request of an orchestrator."""

    def __init__(self, meters: Meters, recorder: Recorder, slow: SlowRule) -> None:
        self.meters = meters
        self.recorder = recorder
        self._slow = slow

    @contextlib.contextmanager
    def request(self, parent: SpanContext | None) -> Iterator[Seen]:
        """Around the whole of one; ``parent`` is its caller's span."""
        seen = Seen(self.recorder.begin(parent), self.meters, time.perf_counter())
        try:
            yield seen
        except Exception as error:
            seen.outcome, seen.error = type(error).__name__, error
            raise
        finally:
            self._end(seen)

    def _end(self, seen: Seen) -> None:
        took_s = time.perf_counter() - seen.arrived
        self._count(seen, took_s)
        kept_because = "failed" if self._failed(seen) else "slow" if seen.is_slow(self._slow) else ""
        self._describe(seen, kept_because)
        seen.span.end()
        self.recorder.end(seen.trace, bool(kept_because))
        self._write(seen, took_s)

    @staticmethod
    def _failed(seen: Seen) -> bool:
        """Whether it failed for a reason that is not in the request itself. One that was not let in has its count."""
        error = seen.error
        if error is None or (isinstance(error, ResourceExhausted) and not seen.trace.session_id):
            return False
        return isinstance(error, _OURS) or not isinstance(error, OutriderError)

    def _count(self, seen: Seen, took_s: float) -> None:
        meters = self.meters
        meters.requests.add(1, seen.outcome)
        meters.request_s.record(took_s, seen.model, seen.outcome if seen.error is not None else "")
        if seen.ttft_s is not None:
            meters.ttft_s.record(seen.ttft_s, seen.model)
        if seen.tpot_s is not None:
            meters.tpot_s.record(seen.tpot_s, seen.model)

    @staticmethod
    def _describe(seen: Seen, kept_because: str) -> None:
        optional = {
            semconv.QUEUE_S: seen.queue_s,
            semconv.TTFT_S: seen.ttft_s,
            semconv.TPOT_S: seen.tpot_s,
            semconv.KEPT_BECAUSE: kept_because if kept_because and not seen.trace.sampled else None,
            semconv.SPANS_LEFT_OUT: seen.trace.left_out or None,
        }
        seen.span.set_attributes({name: value for name, value in optional.items() if value is not None})
        seen.span.set_attribute(semconv.OUTCOME, seen.outcome)
        if seen.error is not None:
            seen.span.set_attribute(semconv.ERROR_TYPE, seen.outcome)
            seen.span.set_status(StatusCode.ERROR, str(seen.error))

    def _write(self, seen: Seen, took_s: float) -> None:
        """The request's line."""
        facts = {
            "outcome": seen.outcome,
            **seen.facts,
            "tokens": seen.tokens,
            "queue_ms": _ms(seen.queue_s),
            "ttft_ms": _ms(seen.ttft_s),
            "tpot_ms": _ms(seen.tpot_s),
            "took_ms": _ms(took_s),
            "trace_id": f"{seen.trace.trace_id:032x}",
            "error": str(seen.error) if seen.error is not None else None,
        }
        level = logging.WARNING if self._failed(seen) else logging.INFO
        log.log(level, "request", extra={"facts": {name: value for name, value in facts.items() if value is not None}})


def _ms(seconds: float | None) -> float | None:
    return round(seconds * 1000, 1) if seconds is not None else None
