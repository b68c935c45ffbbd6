"""A place where spans go that a test looks at."""

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from outrider.spans import LightSpan, new_trace_id


class Kept:
    """A ``spans.Sink`` that keeps what has ended."""

    def __init__(self, sampled: bool = True) -> None:
        self.sampled = sampled
        self.light: list[LightSpan] = []

    def ended(self, span: LightSpan) -> None:
        self.light.append(span)

    @property
    def spans(self) -> list[ReadableSpan]:
        return [span.readable(Resource.get_empty()) for span in self.light]

    def begin(self, name: str = "root") -> LightSpan:
        return LightSpan(self, name, new_trace_id())
