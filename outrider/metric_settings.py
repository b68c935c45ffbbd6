"""What the standard variables of OpenTelemetry say of metrics: the readers that export them, our histograms joined in.

It does not know what is measured.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry import metrics
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
    ResourceMetrics,
    ScopeMetrics,
)

from outrider.instruments import Instrument, histogram_points, observe
from outrider.spans import SCOPE
from outrider.trace_settings import EXPORT_TIMEOUT_S, refuse_http

_instruments: list[Instrument] = []  # all that are exported, for those that the SDK cannot read by itself


def export(instruments: Iterable[Instrument]) -> None:
    """Have these read, from other threads, whenever metrics are exported."""
    chosen = list(instruments)
    observe(metrics.get_meter("outrider"), chosen)
    _instruments.extend(chosen)


def _with_histograms(data: MetricsData | None) -> MetricsData | None:
    """What the SDK has read, and our histograms."""
    made = histogram_points(_instruments)
    if data is None or not made:
        return data
    first = data.resource_metrics[0]
    ours = ResourceMetrics(first.resource, [ScopeMetrics(SCOPE, made, "")], first.schema_url)
    return MetricsData([*data.resource_metrics, ours])


class _Periodic(PeriodicExportingMetricReader):
    def _receive_metrics(self, metrics_data: Any, timeout_millis: float = 10_000, **rest: Any) -> None:
        merged: Any = _with_histograms(metrics_data)
        super()._receive_metrics(merged, timeout_millis, **rest)


def _pushing(exporter: MetricExporter) -> MetricReader:
    return _Periodic(exporter, export_timeout_millis=EXPORT_TIMEOUT_S * 1000)


def _prometheus(environment: Mapping[str, str]) -> MetricReader:
    """Serve /metrics on the standard variables' address. Raises OSError naming it when it is taken."""
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from prometheus_client import start_http_server

    class Reader(PrometheusMetricReader):
        def _receive_metrics(self, metrics_data: Any, timeout_millis: float = 10_000, **rest: Any) -> None:
            merged: Any = _with_histograms(metrics_data)
            super()._receive_metrics(merged, timeout_millis, **rest)

    host = environment.get("OTEL_EXPORTER_PROMETHEUS_HOST", "localhost")
    text = environment.get("OTEL_EXPORTER_PROMETHEUS_PORT", "9464")
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f"OTEL_EXPORTER_PROMETHEUS_PORT={text!r}: must be 1 to 65535")
    reader = Reader(scope_info_enabled=False)
    try:
        start_http_server(int(text), host)
    except OSError as error:
        raise OSError(f"cannot serve metrics on {host}:{text}: {error}") from error
    return reader


def readers_of(environment: Mapping[str, str]) -> list[MetricReader]:
    """Those that are asked for. Raises ValueError that names the variable, and OSError for an address that is taken."""
    readers: list[MetricReader] = []
    for chosen in environment.get("OTEL_METRICS_EXPORTER", "none").split(","):
        if chosen.strip() == "console":
            readers.append(_pushing(ConsoleMetricExporter()))
        elif chosen.strip() == "prometheus":
            readers.append(_prometheus(environment))
        elif chosen.strip() == "otlp":
            refuse_http(environment, "METRICS")
            from outrider import exporting

            exporting.quiet()
            readers.append(_pushing(exporting.MetricExporter(timeout=EXPORT_TIMEOUT_S)))
        elif chosen.strip() not in ("", "none"):
            raise ValueError(f"OTEL_METRICS_EXPORTER={chosen!r}: must be otlp, prometheus, console or none")
    return readers
