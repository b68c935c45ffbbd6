"""One exchange with a replica: what was sent, what came back, what the network took of the time; its span and counts.

Bytes are those of the messages, without gRPC's framing. It knows spans, numbers and sizes, not what a message asks for.
"""

import time
from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind

from orchestrator.meters import Meters
from outrider import semconv, telemetry
from outrider.round_timings import RoundTimings
from outrider.spans import LightSpan
from outrider.tokens import Claim
from outrider.wire import timings_from_pb

_NO_TIMINGS = RoundTimings()


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

    __slots__ = ("_began", "_claim", "_first", "_over", "_sent", "_way", "number", "span", "timings")

    def __init__(self, way: Way, name: str, number: int, claim: Claim, parent: Span) -> None:
        self.number = number
        self.timings = _NO_TIMINGS
        """Where the replica says that the time went; nothing before the answer."""
        self._way = way
        self._claim = claim
        self._sent = 0
        self._first: int | None = None
        self._over = False
        self.span: Span = INVALID_SPAN
        if isinstance(parent, LightSpan):
            self.span = span = parent.child(name, SpanKind.CLIENT)
            span.describe(_asked, (way, number, claim))
        self._began = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the begin."""
        return time.perf_counter() - self._began

    def in_run_of(self, first: "Exchange") -> None:
        """Whose message asked for this round: its own, or that of the first round of a run, which is linked then."""
        self._first = first.number
        if first is not self and isinstance(self.span, LightSpan):
            assert isinstance(first.span, LightSpan)
            self.span.link(first.span)

    def sent(self, request: Any) -> None:
        """The message has left; a round of a run needs none."""
        self._sent = request.ByteSize()

    def answered(self, response: Any, in_run: bool = False) -> None:
        """The answer came just now; later calls change nothing. What the replica did not need of the time since the
        begin, the network took; of a round ``in_run`` nobody can tell."""
        if self._over or self.timings is not _NO_TIMINGS:
            return
        took_s = time.perf_counter() - self._began
        self.timings = timings = timings_from_pb(response.timings)
        received = response.ByteSize()
        network_us = None if in_run else timings.network_us(took_s)
        way = self._way
        way.meters.exchange(way.tier, took_s, network_us, self._sent, received)
        missed = response.WhichOneof("outcome") == "cache_miss"
        if missed:
            self._note_miss(way)
        way.moved = False
        if isinstance(self.span, LightSpan):
            asked = (way, self.number, self._claim)
            self.span.describe(_answered, asked, self._sent, received, timings, network_us, self._first, missed)

    def _note_miss(self, way: Way) -> None:
        reason = "moved" if way.moved else "lost"
        way.meters.misses.add(1, way.tier, reason)
        self.span.add_event(semconv.EVENT_CACHE_MISS, {semconv.REASON: reason})

    def arrived(self, response: Any) -> None:
        """The answer came at a time of its own, perhaps before anybody looked for it."""
        if self.timings is _NO_TIMINGS and not self._over:
            self.span.add_event(semconv.EVENT_ARRIVED)
            self.answered(response)

    def over(self, taken_up: bool) -> None:
        """Nobody waits for an answer that was optional any more: it was used, or came too late."""
        if not self._over:
            self._over = True
            self.span.set_attribute(semconv.TAKEN_UP, taken_up)
            self.span.end()


_Asked = tuple[Way, int, Claim]


def _asked(asked: _Asked) -> dict[str, Any]:
    """Attributes of the span of a message that has no answer."""
    way, number, claim = asked
    return {
        semconv.ROUND: number,
        semconv.PREFIX_LEN: claim.prefix_len,
        semconv.SERVER_ADDRESS: way.address,
        semconv.RPC_SYSTEM: "grpc",
        semconv.RPC_METHOD: way.method,
    }


def _answered(
    asked: _Asked,
    sent: int,
    received: int,
    timings: RoundTimings,
    network_us: int | None,
    first: int | None,
    missed: bool,
) -> dict[str, Any]:
    """And of one that was answered."""
    optional = {semconv.NETWORK_US: network_us, semconv.RUN_FIRST: first}
    return {
        **_asked(asked),
        **telemetry.timing_attributes(timings),
        semconv.BYTES_SENT: sent,
        semconv.BYTES_RECEIVED: received,
        semconv.CACHE_MISS: missed,
        **{name: value for name, value in optional.items() if value is not None},
    }
