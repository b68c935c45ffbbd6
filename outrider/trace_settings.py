"""What the standard variables of OpenTelemetry say of traces: where they go, which requests, and what this process is.

It reads a mapping, not the environment, but for the SDK's own classes, which read it. It does not know spans.
"""

from collections.abc import Mapping

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import sampling
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter

EXPORT_TIMEOUT_S = 2


def refuse_http(environment: Mapping[str, str], kind: str) -> None:
    """Only OTLP over gRPC is built in. Raises ValueError for another protocol of ``kind`` (TRACES, METRICS)."""
    for variable in (f"OTEL_EXPORTER_OTLP_{kind}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if environment.get(variable, "grpc") != "grpc":
            raise ValueError(f"{variable}={environment[variable]!r}: must be grpc")


def span_exporter(environment: Mapping[str, str]) -> SpanExporter | None:
    """Where traces go; None for nowhere. Raises ValueError that names the variable."""
    chosen = environment.get("OTEL_TRACES_EXPORTER", "")
    endpoint = any(environment.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_"))
    if chosen == "console":
        return ConsoleSpanExporter()
    if chosen == "otlp" or (not chosen and endpoint):
        refuse_http(environment, "TRACES")
        from outrider import exporting

        exporting.quiet()
        return exporting.SpanExporter(timeout=EXPORT_TIMEOUT_S)
    if chosen not in ("", "none"):
        raise ValueError(f"OTEL_TRACES_EXPORTER={chosen!r}: must be otlp, console or none")
    return None


_SAMPLERS = {
    "always_on": lambda rate: sampling.ALWAYS_ON,
    "always_off": lambda rate: sampling.ALWAYS_OFF,
    "traceidratio": sampling.TraceIdRatioBased,
    "parentbased_always_on": lambda rate: sampling.DEFAULT_ON,
    "parentbased_always_off": lambda rate: sampling.DEFAULT_OFF,
    "parentbased_traceidratio": sampling.ParentBasedTraceIdRatio,
}


def sampler(environment: Mapping[str, str]) -> sampling.Sampler:
    """Which requests are traced. Raises ValueError that names the variable."""
    name = environment.get("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    if name not in _SAMPLERS:
        raise ValueError(f"OTEL_TRACES_SAMPLER={name!r}: must be one of {', '.join(_SAMPLERS)}")
    text = environment.get("OTEL_TRACES_SAMPLER_ARG", "1")
    try:
        return _SAMPLERS[name](float(text))
    except ValueError:
        raise ValueError(f"OTEL_TRACES_SAMPLER_ARG={text!r}: must be a number from 0 to 1") from None


def resource(service: str) -> Resource:
    """What this process is; the standard variables may call it otherwise."""
    found = Resource.create()
    named = not str(found.attributes["service.name"]).startswith("unknown_service")
    return found if named else found.merge(Resource({"service.name": f"outrider-{service}"}))
