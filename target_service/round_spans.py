"""The server spans of one message's rounds: one each, also for those of a run, which no message asks for by itself.

A round of a run begins on the engine's thread, where the one before it ends, and its span with it, so that the passes
that serve it can name it. It does not know what a round is about.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

from opentelemetry.trace import Span, SpanContext

from outrider import telemetry
from outrider.inference.job import Outcome


class RoundSpans:
    """``begin`` starts the span of a round, by its place in the run. Nothing is done for what nobody records."""

    def __init__(self, begin: Callable[[int], Span]) -> None:
        first = begin(0)
        self._begin = begin
        self._recording = first.is_recording()
        self._lock = threading.Lock()
        self._open: deque[Span] = deque([first])
        self._begun = 0  # rounds whose passes know their span
        self._closed = False

    @property
    def trace(self) -> Callable[[], SpanContext | None] | None:
        """What gives the passes of each round their span, in order of the rounds; None when nobody records."""
        return self._next if self._recording else None

    def _next(self) -> SpanContext | None:
        """The span of the round that begins now. One that begins when nobody waits any more has none."""
        with self._lock:
            if self._closed:
                return None
            if self._begun:
                self._open.append(self._begin(self._begun))
            self._begun += 1
            return self._open[-1].get_span_context()

    def answered(self, outcome: Outcome) -> None:
        """The oldest round has its outcome."""
        if self._recording:
            span = self._open.popleft()
            span.set_attributes(telemetry.outcome_attributes(outcome))
            span.end()

    @contextlib.contextmanager
    def ending(self) -> Iterator["RoundSpans"]:
        """Whatever has not been answered by the end of the block ends with it, and with its error."""
        with contextlib.ExitStack() as spans:
            try:
                yield self
            finally:
                with self._lock:
                    self._closed = True
                for span in self._open:
                    spans.enter_context(span)
