"""Dashboards as values, and as the JSON that Grafana reads (schema version 39: Grafana 11 and later).

It knows Grafana, not what is measured.
"""

import itertools
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deploy.observability import promql
from outrider.semconv import Metric

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _PER_LINE = 8, 8, 3


@dataclass(frozen=True, slots=True)
class Query:
    """A query and what its lines are called: text with ``{{label}}``."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture over time. ``description`` is a sentence that its reader understands without the code; ``unit`` is one
    of Grafana's: ``s``, ``reqps``, ``short``, ``percentunit``; ``stacked``: lines add up to a whole."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page. ``uid`` is in its address, so it never changes. ``of`` is a metric of the processes to choose from."""

    uid: str
    title: str
    description: str
    of: Metric
    rows: tuple[Row, ...]


def quantiles(metric: Metric) -> tuple[Query, ...]:
    """The median, and how bad it gets."""
    return tuple(Query(promql.quantile(q, metric), f"p{q * 100:g}") for q in (0.5, 0.95, 0.99))


def _panel(panel: Panel, place: int, line: int) -> dict[str, Any]:
    targets = [
        {"refId": letter, "datasource": _SOURCE, "editorMode": "code", "range": True}
        | {"expr": query.expr, "legendFormat": query.legend}
        for letter, query in zip(string.ascii_uppercase, panel.queries)
    ]
    drawn = {"fillOpacity": 10, "showPoints": "never", "stacking": {"mode": "normal" if panel.stacked else "none"}}
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": place * _WIDTH, "y": line},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": drawn}, "overrides": []},
        "options": {
            "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }


def _placed(rows: tuple[Row, ...]) -> Iterator[dict[str, Any]]:
    """Headings and panels, three in a line, from top to bottom."""
    line = 0
    for row in rows:
        at = {"h": 1, "w": _WIDTH * _PER_LINE, "x": 0, "y": line}
        yield {"type": "row", "title": row.title, "collapsed": False, "gridPos": at, "panels": []}
        line += 1
        for start in range(0, len(row.panels), _PER_LINE):
            for place, panel in enumerate(row.panels[start : start + _PER_LINE]):
                yield _panel(panel, place, line)
            line += _HEIGHT


def _choice(name: str, of: str) -> dict[str, Any]:
    """A variable with the values of a label; all of them at first."""
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "definition": of,
        "query": {"query": of, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _variables(of: Metric) -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
        _choice("job", f"label_values({of.prometheus}, job)"),
        _choice("instance", f'label_values({of.prometheus}{{job=~"$job"}}, instance)'),
    ]


def as_grafana(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    numbers = itertools.count(1)
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["outrider"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {"type": "dashboards", "title": "Outrider", "tags": ["outrider"], "includeVars": False, "keepTime": True}
        ],
        "templating": {"list": _variables(dashboard.of)},
        "annotations": {"list": []},
        "panels": [{"id": next(numbers), **panel} for panel in _placed(dashboard.rows)],
    }
