"""What lets people look at a stack on one machine: the live page, a receiver of traces, and a port for the metrics of
each service. It knows variables and ports, not what is seen there.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from outrider.cli.ports import free_port
from outrider.cli.service import Service

PAGE = "OUTRIDER_HTTP"
METRICS_AT = "OTEL_EXPORTER_PROMETHEUS_PORT"
RECEIVER_PORT = 4317
METRICS_PORT = 9464
_FIRST = ("orchestrator", "draft", "target")
"""Whose metrics come first; deploy/observability/prometheus/prometheus.yaml looks for them there."""
_SOON_MS = "1000"


def traces_file(logs: Path) -> Path:
    """Where the receiver writes."""
    return logs / "traces.jsonl"


def serve_page(orchestrators: Sequence[Service], host: str, port: int) -> None:
    """Have every orchestrator serve the live page, from a port on; 0 picks free ones."""
    for place, service in enumerate(orchestrators):
        service.variables[PAGE] = f"{host}:{free_port(host) if port == 0 else port + place}"


def observe(stack: Sequence[Service], host: str, logs: Path, free: bool) -> Service:
    """Have all services send their traces to a receiver, and serve their metrics; ``free``: on free ports."""
    address = f"{host}:{free_port(host) if free else RECEIVER_PORT}"
    arguments = ("--listen", address, "--file", str(traces_file(logs)))
    order = sorted(stack, key=lambda service: _FIRST.index(service.name) if service.name in _FIRST else len(_FIRST))
    for place, service in enumerate(order):
        port = free_port(host) if free else METRICS_PORT + place
        service.variables |= _variables(address, host, port)
    return Service("receiver", "outrider.receiver", address, logs / "receiver.log", {}, arguments=arguments)


def whereabouts(stack: Sequence[Service]) -> Iterator[str]:
    """What there is to look at, a line each."""
    for service in stack:
        if PAGE in service.variables:
            yield f"live page of the {service.name}: http://{service.variables[PAGE]}/ui"
    for service in stack:
        if METRICS_AT in service.variables:
            host = service.variables["OTEL_EXPORTER_PROMETHEUS_HOST"]
            yield f"metrics of the {service.name}: http://{host}:{service.variables[METRICS_AT]}/metrics"
        if service.name == "receiver":
            yield f"traces: {traces_file(service.log.parent)}"


def _variables(receiver: str, host: str, port: int) -> dict[str, str]:
    return {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{receiver}",
        "OTEL_BSP_SCHEDULE_DELAY": _SOON_MS,
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": host,
        METRICS_AT: str(port),
    }
