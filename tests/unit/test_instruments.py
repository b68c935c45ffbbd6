"""What was added is what is exported, by labels and buckets, as OpenTelemetry has it."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.metrics.export import Metric as MetricData

from outrider.instruments import Counter, Histogram, Labels, Number, Reading, histogram_points, observe
from outrider.semconv import Metric

METRIC = Metric("outrider.test", "counter", "{thing}", "Things.", ("kind", "place"))
TIMES = Metric("outrider.times", "histogram", "s", "Times.", ("kind",), (0.1, 1.0, 10.0))


def numbers(metric: MetricData) -> list[NumberDataPoint]:
    return [point for point in metric.data.data_points if isinstance(point, NumberDataPoint)]


def exported(*instruments: Counter | Reading) -> dict[str, list[tuple[dict[str, object], float]]]:
    reader = InMemoryMetricReader()
    observe(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"), instruments)
    data = reader.get_metrics_data()
    assert data is not None
    metrics = [
        metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    ]
    return {
        metric.name: [(dict(point.attributes or {}), point.value) for point in numbers(metric)] for metric in metrics
    }


def test_a_counter_has_a_series_for_each_set_of_labels() -> None:
    counter = Counter(METRIC)
    for amount, kind, place in ((1, "a", 0), (2, "a", 1), (3, "a", 0)):
        counter.add(amount, kind, place)
    assert exported(counter) == {"outrider.test": [({"kind": "a", "place": 0}, 4), ({"kind": "a", "place": 1}, 2)]}
    assert (counter.total(), counter.total("a", 1), counter.total("b", 0)) == (6, 2, 0)


def test_an_empty_label_is_left_out() -> None:
    counter = Counter(METRIC)
    counter.add(1, "", 3)
    assert exported(counter) == {"outrider.test": [({"place": 3}, 1)]}


def test_a_gauge_is_read_when_it_is_exported() -> None:
    values: dict[Labels, Number] = {("a", 0): 1}
    gauge = Reading(METRIC, lambda: values)
    values["a", 0] = 7
    assert exported(gauge) == {"outrider.test": [({"kind": "a", "place": 0}, 7)]}


@given(st.lists(st.floats(0.0, 100.0)))
def test_every_value_is_in_one_bucket_whose_bound_it_does_not_exceed(values: list[float]) -> None:
    histogram = Histogram(TIMES)
    for value in values:
        histogram.record(value, "a")
    assert histogram.count() == histogram.count("a") == len(values)
    for metric in histogram_points([histogram]):
        (point,) = metric.data.data_points
        assert isinstance(point, HistogramDataPoint)
        assert point.sum == pytest.approx(sum(values))
        counts = [0] * 4
        for value in values:
            counts[bisect_left(TIMES.bounds, value)] += 1
        assert list(point.bucket_counts) == counts


def test_histograms_of_one_name_are_exported_together_and_empty_ones_not_at_all() -> None:
    one, other, empty = Histogram(TIMES), Histogram(TIMES), Histogram(METRIC)
    one.record(1.0, "a")
    other.record(2.0, "b")
    (metric,) = histogram_points([one, empty, other])
    assert [dict(point.attributes or {}) for point in metric.data.data_points] == [{"kind": "a"}, {"kind": "b"}]
