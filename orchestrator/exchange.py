"""One exchange with a replica: what was sent, what came back, what the network took of the time; its span and counts.

Bytes are those of the messages, without gRPC's framing. It knows spans, numbers and sizes, not what a message asks for.
"""

import time
from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import Span, SpanKind

from orchestrator.meters import Meters
from outrider import semconv, spans, telemetry
from outrider.round_timings import RoundTimings
from outrider.tokens import Claim
from outrider.wire import timings_from_pb


@dataclass(slots=True)
class Way:
    """The way to one replica: its tier and address, the method that is called, and where exchanges are counted.
    ``moved``: the session was at another replica before."""

    tier: str
    address: str
    method: str
    meters: Meters
    moved: bool = False


class Exchange:
    """One message, its answer, and the span of both, which begins when the message is about to leave."""

    __slots__ = ("_answered", "_began", "_claim", "_first", "_network_us", "_over", "_received", "_sent", "_taken_up",
                 "_timings", "_way", "missed", "number", "span")  # fmt: skip

    def __init__(self, way: Way, name: str, number: int, claim: Claim, parent: Span) -> None:
        self.number = number
        self.missed = False
        self._way = way
        self._claim = claim
        self._answered = self._over = False
        self._sent = self._received = 0
        self._timings: RoundTimings | None = None
        self._network_us: int | None = None
        self._first: int | None = None
        self._taken_up: bool | None = None
        self.span = spans.child(parent, name, SpanKind.CLIENT)
        spans.later(self.span, self._describe)
        self._began = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the begin."""
        return time.perf_counter() - self._began

    def in_run_of(self, first: "Exchange") -> None:
        """Whose message asked for this round: its own, or that of the first round of a run, which is linked then."""
        self._first = first.number
        if first is not self and self.span.is_recording():
            self.span.add_link(first.span.get_span_context())

    def sent(self, request: Any) -> None:
        """The message has left; a round of a run needs none."""
        if not self._over:
            self._sent = request.ByteSize()

    def answered(self, response: Any, in_run: bool = False) -> None:
        """The answer came just now; later calls change nothing. What the replica did not need of the time since the
        begin, the network took; of a round ``in_run`` nobody can tell."""
        if self._answered or self._over:
            return
        took_s, self._answered = self.elapsed_s, True
        self._timings = timings = timings_from_pb(response.timings)
        self._received = response.ByteSize()
        self._network_us = None if in_run else timings.network_us(took_s)
        way = self._way
        way.meters.exchange(way.tier, took_s, self._network_us, self._sent, self._received)
        if response.WhichOneof("outcome") == "cache_miss":
            self._note_miss()
        way.moved = False

    def _note_miss(self) -> None:
        reason = "moved" if self._way.moved else "lost"
        self.missed = True
        self._way.meters.misses.add(1, self._way.tier, reason)
        self.span.add_event(semconv.EVENT_CACHE_MISS, {semconv.REASON: reason})

    def arrived(self, response: Any) -> None:
        """The answer came at a time of its own, perhaps before anybody looked for it."""
        if not self._answered and not self._over:
            self.span.add_event(semconv.EVENT_ARRIVED)
            self.answered(response)

    def over(self, taken_up: bool) -> None:
        """Nobody waits for an answer that was optional any more: it was used, or came too late."""
        if not self._over:
            self._over, self._taken_up = True, taken_up
            self.span.end()

    def taken_up(self) -> None:
        """An answer that was optional is used."""
        self._taken_up = True

    def _describe(self) -> dict[str, Any]:
        """Attributes of the span."""
        way = self._way
        attributes: dict[str, Any] = {
            semconv.ROUND: self.number,
            semconv.PREFIX_LEN: self._claim.prefix_len,
            semconv.SERVER_ADDRESS: way.address,
            semconv.RPC_SYSTEM: "grpc",
            semconv.RPC_METHOD: way.method,
            semconv.BYTES_SENT: self._sent,
        }
        if self._answered and self._timings is not None:
            attributes |= telemetry.timing_attributes(self._timings)
            attributes |= {semconv.BYTES_RECEIVED: self._received, semconv.CACHE_MISS: self.missed}
        optional = {
            semconv.NETWORK_US: self._network_us,
            semconv.RUN_FIRST: self._first,
            semconv.TAKEN_UP: self._taken_up,
        }
        return attributes | {name: value for name, value in optional.items() if value is not None}
