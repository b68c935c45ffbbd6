"""One registry of names: none twice, each with a meaning, in the forms that OpenTelemetry and Prometheus want."""

import re
from pathlib import Path

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from outrider import semconv
from outrider.instruments import Reading, observe

DOCUMENT = Path(__file__).parents[2] / "docs/telemetry.md"


@pytest.mark.parametrize("registry", [semconv.SPANS, semconv.EVENTS, semconv.ATTRIBUTES, semconv.METRICS])
def test_no_name_is_there_twice_and_each_has_a_meaning(registry: list[semconv.Name]) -> None:
    names = [each.name for each in registry]
    assert len(set(names)) == len(names)
    assert all(each.meaning.strip() for each in registry)
    assert all(re.fullmatch(r"[a-z][a-z0-9_.]*", name) for name in names)


def test_labels_are_registered_attributes() -> None:
    known = {each.name for each in semconv.ATTRIBUTES}
    assert {label for metric in semconv.METRICS for label in metric.labels} <= known


def test_histograms_and_only_they_have_rising_bounds() -> None:
    for metric in semconv.METRICS:
        assert bool(metric.bounds) == (metric.kind == "histogram")
        assert list(metric.bounds) == sorted(set(metric.bounds))


@pytest.mark.parametrize("metric", [each for each in semconv.METRICS if each.kind != "histogram"], ids=lambda m: m.name)
def test_the_prometheus_name_is_the_one_that_the_exporter_makes(metric: semconv.Metric) -> None:
    registry = CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(True, registry=registry)], shutdown_on_exit=False)
    observe(provider.get_meter("test"), [Reading(metric, lambda: {tuple("x" for _ in metric.labels): 1})])
    samples = [sample.name for family in registry.collect() for sample in family.samples]
    assert samples == [metric.prometheus]


def test_the_document_is_the_registry() -> None:
    """``make docs`` writes it."""
    assert DOCUMENT.read_text() == semconv.document()
