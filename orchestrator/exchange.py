"""One exchange with a replica: what was sent, what came back, what the network took of the time; its span and counts.

Bytes are those of the messages, without gRPC's framing. It knows spans, numbers and sizes, not what a message asks for.
"""

import time
from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind

from orchestrator.meters import TierMeters
from outrider import semconv, telemetry
from outrider.round_timings import RoundTimings
from outrider.spans import LightSpan
from outrider.tokens import Claim
from outrider.wire import timings_from_pb

_NO_TIMINGS = RoundTimings()


@dataclass(slots=True)
class Way:
    """The way to one replica: its address, the method that is called, and where exchanges are counted. ``moved``: the
    session was at another replica before."""

    address: str
    method: str
    meters: TierMeters
    moved: bool = False


class Exchange:
    """One message, its answer, and the span of both, which begins when the message is about to leave. As a context
    manager it ends with its block. Where peers are not asked to trace, most are only noted in their round's span."""

    __slots__ = (
        "_began",
        "_begin_ns",
        "_claim",
        "_first",
        "_missed",
        "_name",
        "_network_us",
        "_over",
        "_parent",
        "_received",
        "_sent",
        "_span",
        "_way",
        "number",
        "timings",
    )  # fmt: skip

    def __init__(self, way: Way, name: str, number: int, claim: Claim, parent: Span) -> None:
        self.number = number
        self.timings = _NO_TIMINGS
        """Where the replica says that the time went; nothing before the answer."""
        self._way = way
        self._name = name
        self._claim = claim
        self._sent = self._received = 0
        self._network_us: int | None = None
        self._first: int | None = None
        self._over = self._missed = False
        self._span: Span | None = None
        self._parent = parent
        self._begin_ns = time.time_ns()
        self._began = time.perf_counter()

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        parent = self._parent
        if self._span is None and error is None and isinstance(parent, LightSpan) and not parent.sampled:
            self._over = True
            parent.note(self._name, SpanKind.CLIENT, self._begin_ns, time.time_ns(), _described, *self._facts())
            return
        span = self.span
        self._end()
        span.__exit__(kind, error, trace)

    @property
    def span(self) -> Span:
        """Its span, which is there from the first time that somebody asks."""
        if self._span is None:
            self._span = INVALID_SPAN
            if isinstance(self._parent, LightSpan):
                self._span = self._parent.child(self._name, SpanKind.CLIENT, start_ns=self._begin_ns)
        return self._span

    @property
    def traceparent(self) -> str:
        """What the message says of the span; nothing where the replica is not asked to trace."""
        parent = self._parent
        return telemetry.inject(self.span) if isinstance(parent, LightSpan) and parent.sampled else ""

    def _facts(self) -> tuple[Any, ...]:
        return (
            self._way, self.number, self._claim.prefix_len, self._sent, self._received, self.timings, self._network_us,
            self._first, self._missed,
        )  # fmt: skip

    def _end(self) -> None:
        """What is known now is what its span says."""
        self._over = True
        if isinstance(self._span, LightSpan):
            self._span.describe(_described, *self._facts())

    @property
    def elapsed_s(self) -> float:
        """Seconds since the begin."""
        return time.perf_counter() - self._began

    def in_run_of(self, first: "Exchange") -> None:
        """Whose message asked for this round: its own, or that of the first round of a run, which is linked then."""
        self._first = first.number
        parent = self._parent
        if first is not self and isinstance(parent, LightSpan) and parent.sampled:
            self.span.add_link(first.span.get_span_context())

    def sent(self, request: Any) -> None:
        """The message has left; a round of a run needs none."""
        self._sent = request.ByteSize()
        self._way.meters.sent += self._sent

    def answered(self, response: Any, in_run: bool = False) -> None:
        """The answer came just now; later calls change nothing. What the replica did not need of the time since the
        begin, the network took; of a round ``in_run`` nobody can tell."""
        if self._over or self.timings is not _NO_TIMINGS:
            return
        took_s = time.perf_counter() - self._began
        self.timings = timings = timings_from_pb(response.timings)
        self._received = received = response.ByteSize()
        if not in_run:
            self._network_us = timings.network_us(took_s)
        way = self._way
        way.meters.exchange(took_s, self._network_us, received)
        if response.WhichOneof("outcome") == "cache_miss":
            self._note_miss(way)
        way.moved = False

    def _note_miss(self, way: Way) -> None:
        reason = "moved" if way.moved else "lost"
        self._missed = True
        way.meters.missed(reason)
        self.span.add_event(semconv.EVENT_CACHE_MISS, {semconv.REASON: reason})

    def arrived(self, response: Any) -> None:
        """The answer came at a time of its own, perhaps before anybody looked for it."""
        if self._over:
            self._way.meters.received += response.ByteSize()
        elif self.timings is _NO_TIMINGS:
            self.span.add_event(semconv.EVENT_ARRIVED)
            self.answered(response)

    def over(self, taken_up: bool) -> None:
        """Nobody waits for an answer that was optional any more: it was used, or came too late."""
        if not self._over:
            self.span.set_attribute(semconv.TAKEN_UP, taken_up)
            self._end()
            self.span.end()


def _described(
    way: Way,
    number: int,
    prefix_len: int,
    sent: int,
    received: int,
    timings: RoundTimings,
    network_us: int | None,
    first: int | None,
    missed: bool,
) -> dict[str, Any]:
    """Attributes of the span. Of an exchange without an answer nobody knows where its time went."""
    attributes: dict[str, Any] = {
        semconv.ROUND: number,
        semconv.PREFIX_LEN: prefix_len,
        semconv.SERVER_ADDRESS: way.address,
        semconv.RPC_SYSTEM: "grpc",
        semconv.RPC_METHOD: way.method,
    }
    if timings is not _NO_TIMINGS:
        attributes |= telemetry.timing_attributes(timings)
        attributes |= {semconv.BYTES_SENT: sent, semconv.BYTES_RECEIVED: received, semconv.CACHE_MISS: missed}
    optional = {semconv.NETWORK_US: network_us, semconv.RUN_FIRST: first}
    return attributes | {name: value for name, value in optional.items() if value is not None}
