"""One exchange with a replica as a client span: what was sent, what came back, and what the network took of the time.

Bytes are those of the messages, without gRPC's framing. It knows spans and sizes, not what a message asks for; nothing
is counted for a span that nobody records.
"""

import time
from typing import Any

from opentelemetry.trace import Span, SpanKind

from outrider import telemetry
from outrider.tokens import Claim
from outrider.wire import timings_from_pb


class Exchange:
    """One message, its answer, and the span of both, which begins when the message is about to leave."""

    def __init__(self, name: str, number: int, claim: Claim, parent: Span) -> None:
        self.number = number
        attributes = {telemetry.ROUND: number, telemetry.PREFIX_LEN: claim.prefix_len}
        self.span = telemetry.tracer().start_span(name, telemetry.child_of(parent), SpanKind.CLIENT, attributes)
        self._began = time.perf_counter()
        self._answered = False

    @property
    def elapsed_s(self) -> float:
        """Seconds since the begin."""
        return time.perf_counter() - self._began

    def in_run_of(self, first: "Exchange") -> None:
        """Whose message asked for this round: its own, or that of the first round of a run, which is linked then."""
        if self.span.is_recording():
            self.span.set_attribute(telemetry.RUN_FIRST, first.number)
            if first is not self:
                self.span.add_link(first.span.get_span_context())

    def sent(self, request: Any) -> None:
        """The message has left; None in a round of a run, which needs none."""
        if self.span.is_recording():
            self.span.set_attribute(telemetry.BYTES_SENT, request.ByteSize() if request is not None else 0)

    def answered(self, response: Any, in_run: bool = False) -> None:
        """The answer came just now; later calls change nothing. What the replica did not need of the time since the
        begin, the network took; of a round ``in_run`` nobody can tell."""
        if not self.span.is_recording() or self._answered:
            return
        took_s, self._answered = self.elapsed_s, True
        timings = timings_from_pb(response.timings)
        attributes = telemetry.timing_attributes(timings) | {
            telemetry.BYTES_RECEIVED: response.ByteSize(),
            telemetry.CACHE_MISS: response.WhichOneof("outcome") == "cache_miss",
        }
        if not in_run:
            attributes[telemetry.NETWORK_US] = timings.network_us(took_s)
        self.span.set_attributes(attributes)

    def arrived(self, response: Any) -> None:
        """The answer came at a time of its own, perhaps before anybody looked for it."""
        if self.span.is_recording() and not self._answered:
            self.span.add_event(telemetry.ARRIVED)
            self.answered(response)

    def over(self, taken_up: bool) -> None:
        """Nobody waits for an answer that was optional any more: it was used, or came too late."""
        if self.span.is_recording():
            self.span.set_attribute(telemetry.TAKEN_UP, taken_up)
            self.span.end()
