"""Counters, gauges and histograms that cost a fraction of a microsecond, exported by OpenTelemetry.

The SDK's own take 5 to 8 us for each value, and a round has a dozen. Here a value is added to a number in a dictionary;
the SDK reads counters and gauges whenever it exports (observable instruments), and histograms join what it exports
(``histogram_points``). One thread writes a series, others may read it. It knows names from ``semconv``, not what is
measured.
"""

import itertools
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics.export import AggregationTemporality, HistogramDataPoint
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.metrics.export import Metric as MetricData

from outrider.semconv import Metric

Labels = tuple[str | int, ...]
Number = int | float


def _attributes(metric: Metric, labels: Labels) -> dict[str, str | int]:
    """Of a series; empty labels are left out."""
    return {name: value for name, value in zip(metric.labels, labels, strict=True) if value != ""}


@dataclass(slots=True)
class Counter:
    """Numbers that only grow, by labels."""

    metric: Metric
    series: dict[Labels, Number] = field(default_factory=dict)

    def add(self, amount: Number, *labels: str | int) -> None:
        """Add to the series of these labels."""
        self.series[labels] = self.series.get(labels, 0) + amount

    def total(self, *labels: str | int) -> Number:
        """Of one series, or of all."""
        return self.series.get(labels, 0) if labels else sum(self.read().values())

    def read(self) -> Mapping[Labels, Number]:
        """A copy, safe to take from another thread."""
        return dict(self.series)


@dataclass(slots=True)
class Reading:
    """Numbers that are kept elsewhere, and read when somebody wants them: of each series by its labels. A counter or a
    gauge, as the metric says."""

    metric: Metric
    read: Callable[[], Mapping[Labels, Number]]


@dataclass(slots=True)
class Series:
    """The values of one series: how many fell into each bucket, the last one open above; their sum and bounds."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")

    def record(self, value: float) -> None:
        """Count a value. Buckets contain their upper bound, as in OpenTelemetry and Prometheus."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value


@dataclass(slots=True)
class Histogram:
    """Values by bucket and labels."""

    metric: Metric
    series: dict[Labels, Series] = field(default_factory=dict)
    _began_ns: int = field(default_factory=time.time_ns)

    def of(self, *labels: str | int) -> Series:
        """The series of these labels."""
        series = self.series.get(labels)
        if series is None:
            bounds = self.metric.bounds
            series = self.series[labels] = Series(bounds, [0] * (len(bounds) + 1))
        return series

    def record(self, value: float, *labels: str | int) -> None:
        """Count a value of the series of these labels."""
        self.of(*labels).record(value)

    def count(self, *labels: str | int) -> int:
        """Values of one series, or of all."""
        found = [self.series[labels]] if labels in self.series else [] if labels else list(self.series.values())
        return sum(sum(series.counts) for series in found)

    def points(self, now_ns: int) -> list[HistogramDataPoint]:
        """As OpenTelemetry exports them."""
        series = [(labels, each) for labels, each in list(self.series.items()) if each.most >= each.least]
        return [self._point(labels, each, now_ns) for labels, each in series]

    def _point(self, labels: Labels, series: Series, now_ns: int) -> HistogramDataPoint:
        counts = tuple(series.counts)
        return HistogramDataPoint(
            attributes=_attributes(self.metric, labels), start_time_unix_nano=self._began_ns, time_unix_nano=now_ns,
            count=sum(counts), sum=series.total, bucket_counts=counts, explicit_bounds=self.metric.bounds,
            min=series.least, max=series.most,
        )  # fmt: skip


Instrument = Counter | Reading | Histogram


def observe(meter: Meter, instruments: Iterable[Instrument]) -> None:
    """Have a meter read the counters and gauges among them."""
    for each in instruments:
        if isinstance(each, Histogram):
            continue
        counts = each.metric.kind == "counter"
        make = meter.create_observable_counter if counts else meter.create_observable_gauge
        make(each.metric.name, [_reader(each)], each.metric.unit, each.metric.meaning)


def _reader(instrument: Counter | Reading) -> Callable[[CallbackOptions], list[Observation]]:
    def read(options: CallbackOptions) -> list[Observation]:
        values = instrument.read()
        return [Observation(value, _attributes(instrument.metric, labels)) for labels, value in values.items()]

    return read


def histogram_points(instruments: Iterable[Instrument]) -> list[MetricData]:
    """The histograms among them that have any value, merged by name, as OpenTelemetry exports them."""
    now_ns = time.time_ns()
    histograms = sorted((each for each in instruments if isinstance(each, Histogram)), key=lambda h: h.metric.name)
    grouped = itertools.groupby(histograms, key=lambda each: each.metric)
    made = [_data(metric, [point for each in same for point in each.points(now_ns)]) for metric, same in grouped]
    return [metric for metric in made if metric.data.data_points]


def _data(metric: Metric, points: list[Any]) -> MetricData:
    data = HistogramData(points, AggregationTemporality.CUMULATIVE)
    return MetricData(metric.name, metric.meaning, metric.unit, data)
