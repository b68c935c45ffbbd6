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
_DONE = (SpanExportResult.SUCCESS, MetricExportResult.SUCCESS)


class _Saying:
    """Mixed into an exporter. ``_what`` it exports."""

    _what = ""
    _away = False

    def export(self, *args: Any, **kwargs: Any) -> Any:
        """As the SDK's, and told when it begins or ceases to fail."""
        result = super().export(*args, **kwargs)  # type: ignore[misc]
        away = result not in _DONE
        if away != self._away:
            self._away = away
            self._say(getattr(self, "_endpoint", "the collector"))
        return result

    def _say(self, where: str) -> None:
        if self._away:
            log.warning("%s do not reach %s; they are dropped until it is back", self._what, where)
        else:
            log.info("%s reach %s again", self._what, where)


class SpanExporter(_Saying, OTLPSpanExporter):
    """Of traces."""

    _what = "traces"


class MetricExporter(_Saying, OTLPMetricExporter):
    """Of metrics."""

    _what = "metrics"


def quiet() -> None:
    """What is said here the SDK need not say."""
    for name in ("opentelemetry.exporter.otlp.proto.grpc", "opentelemetry.exporter.otlp.proto.grpc.exporter"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
