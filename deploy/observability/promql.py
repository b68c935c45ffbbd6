"""Queries of dashboards in PromQL, from metrics of ``semconv``, so that a name cannot be wrong.

``by`` is a label to tell series apart by, or several with commas. What a label may be is a keyword: ``tier="draft"``;
``mode="!target_only"`` is anything else. It knows PromQL, not what a number is good for.
"""

from outrider.semconv import Metric

_CHOSEN = 'job=~"$job",instance=~"$instance"'
"""The variables of a dashboard."""
_WINDOW = "$__rate_interval"
"""Grafana's: long enough for the distance of scrapes and for the width of the picture."""


def series(metric: Metric, suffix: str = "", **where: str) -> str:
    """The series of a metric at the chosen processes; ``suffix`` is that of a histogram's parts."""
    matchers = [_CHOSEN, *(_matcher(label, value) for label, value in where.items())]
    return f"{metric.prometheus}{suffix}{{{','.join(matchers)}}}"


def _matcher(label: str, value: str) -> str:
    sign = "!=" if value.startswith("!") else "="
    return f'{label}{sign}"{value.removeprefix("!")}"'


def _over(operation: str, inner: str, by: str) -> str:
    return f"{operation} by ({by}) ({inner})" if by else f"{operation} ({inner})"


def rate(metric: Metric, by: str = "", suffix: str = "", **where: str) -> str:
    """How fast a counter grows, per second, all processes together."""
    return _over("sum", f"rate({series(metric, suffix, **where)}[{_WINDOW}])", by)


def ratio(part: str, whole: str) -> str:
    """One by the other; of equal labels."""
    return f"{part} / {whole}"


def share(part: str, whole: str) -> str:
    """Like ``ratio``, 0 for a part that has never been seen."""
    return f"({part} or {whole} * 0) / {whole}"


def mean(metric: Metric, by: str = "", **where: str) -> str:
    """Of a histogram's values."""
    return ratio(rate(metric, by, "_sum", **where), rate(metric, by, "_count", **where))


def quantile(q: float, metric: Metric, by: str = "", **where: str) -> str:
    """Of a histogram's values, within the width of its buckets."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, {rate(metric, labels, '_bucket', **where)})"


def now(metric: Metric, by: str = "", operation: str = "sum", **where: str) -> str:
    """What a gauge says, all processes together."""
    return _over(operation, series(metric, **where), by)
