"""What a PromQL query asks for, checked against ``semconv``: names, labels and their values.

``labels_of`` works out which labels a query's results have, as Prometheus does, and raises AssertionError for what
would silently give nothing: a metric or a label that does not exist, or two sides of an operator whose labels differ.
"""

import re
from collections.abc import Mapping
from typing import Any

import promql_parser as promql

from outrider import errors, semconv
from outrider.semconv import Metric

_EVERYWHERE = frozenset({"job", "instance"})
_STANDARD = re.compile(r"up|process_\w+")
_SETS = ("and", "or", "unless")
_COUNTERS_ONLY = ("rate", "increase", "irate")
_PARTS = {"_bucket": {"le"}, "_sum": set(), "_count": set()}
_METRICS = {metric.prometheus: metric for metric in semconv.METRICS}
_MEANINGS = {attribute.name: attribute.meaning for attribute in semconv.ATTRIBUTES}

Recorded = Mapping[str, frozenset[str]]
"""Labels of recorded series by name."""


def _metric(name: str) -> tuple[Metric, frozenset[str]] | None:
    """The metric that a series belongs to, with the labels of the series; None for an unknown one."""
    metric, added = _METRICS.get(name), set[str]()
    for suffix, labels in _PARTS.items():
        if metric is None and name.endswith(suffix):
            metric, added = _METRICS.get(name.removesuffix(suffix)), labels
            if metric is not None and metric.kind != "histogram":
                return None
    if metric is None:
        return None
    return metric, frozenset({*(label.replace(".", "_") for label in metric.labels), *added})


def selectors(query: str) -> list[Any]:
    """Every selector of series in it."""
    found: list[Any] = []

    def keep(node: Any) -> None:
        if isinstance(node, promql.VectorSelector):
            found.append(node)

    promql.walk(promql.parse(query), keep)
    return found


def metrics_in(query: str) -> set[str]:
    """Names, as in ``semconv``, of the metrics that it asks for."""
    known = (_metric(str(selector.name)) for selector in selectors(query))
    return {metric.name for metric, _ in filter(None, known)}


def labels_of(query: str, recorded: Recorded) -> frozenset[str]:
    """Labels of its results."""
    return _labels(promql.parse(query), recorded)


def _labels(node: Any, recorded: Recorded) -> frozenset[str]:
    if isinstance(node, promql.NumberLiteral | promql.StringLiteral):
        return frozenset()
    if isinstance(node, promql.ParenExpr | promql.SubqueryExpr | promql.UnaryExpr):
        return _labels(node.expr, recorded)
    if isinstance(node, promql.MatrixSelector):
        return _selected(node.vector_selector, recorded)
    if isinstance(node, promql.VectorSelector):
        return _selected(node, recorded)
    if isinstance(node, promql.AggregateExpr):
        return _grouped(node, _labels(node.expr, recorded))
    if isinstance(node, promql.Call):
        return _called(node, recorded)
    return _combined(node, _labels(node.lhs, recorded), _labels(node.rhs, recorded))


def _selected(node: Any, recorded: Recorded) -> frozenset[str]:
    name = str(node.name)
    known = _metric(name)
    assert known or name in recorded or _STANDARD.fullmatch(name), f"{name} is no metric of semconv"
    labels = _EVERYWHERE | known[1] if known else recorded.get(name, _EVERYWHERE)
    for matcher in node.matchers.matchers:
        assert matcher.name in labels, f"{name} has no label {matcher.name}"
        if matcher.name not in _EVERYWHERE:
            _check_values(known[0] if known else None, matcher)
    return labels


def _check_values(metric: Metric | None, matcher: Any) -> None:
    """A value that never comes would make a query that never finds anything."""
    allowed = _values(metric, matcher.name)
    several = matcher.op in (promql.MatchOp.Re, promql.MatchOp.NotRe)
    for value in matcher.value.split("|") if several else [matcher.value]:
        assert not allowed or value in allowed, f"{matcher.name} is never {value!r}"


def _values(metric: Metric | None, label: str) -> set[str]:
    """What a label may be, if ``semconv`` says; else nothing."""
    if metric is None:
        return set()
    if label == "le":
        return {str(bound) for bound in metric.bounds}
    name = next(each for each in metric.labels if each.replace(".", "_") == label)
    meaning = _MEANINGS[name]
    if meaning.startswith("As `"):
        meaning = _MEANINGS[meaning.split("`")[1]]
    words = set(re.findall("`([^`]+)`", meaning))
    return words | {error.__name__ for error in errors.CODES} if name == semconv.OUTCOME else words


def _grouped(node: Any, inner: frozenset[str]) -> frozenset[str]:
    if node.modifier is None:
        return frozenset()
    named = frozenset(node.modifier.labels)
    assert named <= inner, f"{sorted(named - inner)} are no labels in {node.prettify()}"
    return named if node.modifier.type == promql.AggModifierType.By else inner - named


def _called(node: Any, recorded: Recorded) -> frozenset[str]:
    name = node.func.name
    inner = frozenset[str]().union(*(_labels(each, recorded) for each in node.args))
    if name in _COUNTERS_ONLY:
        known = _metric(str(node.args[0].vector_selector.name))
        assert known and known[0].kind != "gauge", f"{name} needs a counter: {node.prettify()}"
    if name == "scalar":
        return frozenset()
    return inner - {"le"} if name == "histogram_quantile" else inner


def _combined(node: Any, left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    modifier = node.modifier
    if not left or not right:  # a number beside it, or one series without labels
        return left | right
    if modifier is None or modifier.matching is None:
        assert left == right, f"{sorted(left)} and {sorted(right)} never meet in {node.prettify()}"
        return left
    on = frozenset(modifier.matching.labels)
    assert modifier.matching.type == promql.LabelModifierType.Include, "on says more than ignoring"
    assert on <= left & right, f"{sorted(on)} are not on both sides of {node.prettify()}"
    if str(node.op) in _SETS or modifier.card == promql.VectorMatchCardinality.ManyToOne:
        return left | frozenset(modifier.group_labels or ())
    return on
