"""Exporters over OTLP that say once that the collector is away, and once that it is back.

The SDK's say it twice for every attempt, as errors; a collector that is away is nobody's error here. It does not know
what is exported.
"""

import logging
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

log = logging.getLogger(__name__)


class _Reach:
    """Whether the last export has reached the collector; a change is told. ``what`` is exported, ``where`` to."""

    def __init__(self, what: str, where: str) -> None:
        self._what = what
        self._where = where
        self._away = False

    def note(self, done: bool) -> None:
        """One more export has gone well, or not."""
        if self._away and done:
            log.info("%s reach %s again", self._what, self._where)
        if not self._away and not done:
            log.warning("%s do not reach %s; they are dropped until it is back", self._what, self._where)
        self._away = not done


class SpanExporter(OTLPSpanExporter):
    """Of traces."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout=timeout)
        self._reach = _Reach("traces", self._endpoint)

    def export(self, *args: Any, **kwargs: Any) -> SpanExportResult:
        """As the SDK's."""
        result = super().export(*args, **kwargs)
        self._reach.note(result is SpanExportResult.SUCCESS)
        return result


class MetricExporter(OTLPMetricExporter):
    """Of metrics."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout=timeout)
        self._reach = _Reach("metrics", self._endpoint)

    def export(self, *args: Any, **kwargs: Any) -> MetricExportResult:
        """As the SDK's."""
        result = super().export(*args, **kwargs)
        self._reach.note(result is MetricExportResult.SUCCESS)
        return result


def quiet() -> None:
    """What is said here the SDK need not say."""
    for name in ("opentelemetry.exporter.otlp.proto.grpc", "opentelemetry.exporter.otlp.proto.grpc.exporter"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
