"""Dashboards and alerts ask for what there is: every name, label and value is one that ``semconv`` has."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.observability.dashboards import DASHBOARDS, FOLDER, rendered
from outrider import semconv
from outrider.certificates import ENDING_S, ENDING_SHARE
from outrider.cli.observing import METRICS_PORT
from tests.deploy.promql import Recorded, labels_of, metrics_in

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy" / "observability" / "prometheus"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())["groups"] for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
TESTS: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "rules_test.yaml").read_text())["tests"]
GRAFANA: dict[str, dict[str, Any]] = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
PANELS = [(name, panel) for name, page in GRAFANA.items() for panel in page["panels"] if panel["type"] != "row"]
TARGETS = [(name, panel["title"], target) for name, panel in PANELS for target in panel["targets"]]
NOT_SHOWN: dict[str, str] = {}
"""Metrics that are on no dashboard and in no rule, and why."""


def _query(target: dict[str, Any]) -> str:
    return str(target["expr"]).replace("$__rate_interval", "5m")


def _recorded() -> Recorded:
    known: dict[str, frozenset[str]] = {}
    for rule in RULES:
        if "record" in rule:
            known[rule["record"]] = labels_of(rule["expr"], known)
    return known


@pytest.mark.parametrize(("page", "title", "target"), TARGETS)
def test_a_panel_asks_for_what_there_is_and_names_lines_by_labels_that_they_have(
    page: str, title: str, target: dict[str, Any]
) -> None:
    labels = labels_of(_query(target), {})
    assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) == labels


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.get("alert") or rule["record"]))
def test_a_rule_asks_for_what_there_is_and_tells_labels_that_it_has(rule: dict[str, Any]) -> None:
    labels = labels_of(rule["expr"], _recorded())
    assert set(re.findall(r"\$labels\.(\w+)", str(rule.get("annotations")))) <= labels


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("outrider_no_such_metric", "no metric"),
        ("rate(outrider_rounds_total_bucket[5m])", "no metric"),
        ('outrider_rounds_total{model="x"}', "no label"),
        ('outrider_rounds_total{mode="speculating"}', "is never"),
        ('rate(gen_ai_server_time_to_first_token_seconds_bucket{le="3"}[5m])', "is never"),
        ("sum by (tier) (outrider_rounds_total)", "no labels"),
        ("rate(outrider_sessions[5m])", "counter"),
        ("outrider_rounds_total / outrider_requests_total", "never meet"),
        ("outrider_rounds_total / on (mode) outrider_requests_total", "both sides"),
    ],
)
def test_a_query_for_what_there_is_not_would_be_found(query: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        labels_of(query, {})


def test_every_metric_is_on_a_dashboard_or_in_a_rule() -> None:
    queries = [_query(target) for _, _, target in TARGETS] + [rule["expr"] for rule in RULES]
    shown = set[str]().union(*map(metrics_in, queries))
    assert {metric.name for metric in semconv.METRICS} - shown == set(NOT_SHOWN)


def test_dashboards_are_those_that_the_code_makes() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == rendered(), (
        "python -m deploy.observability.dashboards"
    )


def test_dashboards_and_panels_have_ids_of_their_own() -> None:
    uids = [page["uid"] for page in GRAFANA.values()]
    assert len(set(uids)) == len(uids) == len(DASHBOARDS)
    for page in GRAFANA.values():
        ids = [panel["id"] for panel in page["panels"]]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("page", GRAFANA.values(), ids=GRAFANA)
def test_a_dashboard_lets_choose_its_data_and_its_processes(page: dict[str, Any]) -> None:
    assert page["schemaVersion"] >= 39
    source, *choices = page["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert [choice["name"] for choice in choices] == ["job", "instance"]
    for choice in choices:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", choice["query"]["query"])
        assert found and found[2] in labels_of(found[1], {})


@pytest.mark.parametrize(("page", "panel"), PANELS)
def test_a_panel_has_a_title_and_a_sentence_that_explains_it(page: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_waits_and_says_what_is_wrong_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert alert["for"]
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["description"]
    page, anchor = alert["annotations"]["runbook_url"].split("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()


def test_an_alert_calls_a_certificate_overdue_when_its_process_does() -> None:
    query = next(alert["expr"] for alert in ALERTS if alert["alert"] == "OutriderCertificateExpiring")
    limits = {float(days) * 86400 for days in re.findall(r"< (\d+) \* 86400", query)}
    shares = {float(share) for share in re.findall(r"< ([\d.]+) \* \(", query)}
    assert (limits, shares) == ({ENDING_S}, {ENDING_SHARE})


def test_each_alert_is_shown_to_fire_and_not_to_fire() -> None:
    shown = [(each["alertname"], bool(each["exp_alerts"])) for test in TESTS for each in test["alert_rule_test"]]
    assert set(shown) == {(alert["alert"], fires) for alert in ALERTS for fires in (True, False)}


@pytest.mark.parametrize(
    "command", ["check rules rules.yaml", "test rules rules_test.yaml", "check config prometheus.yaml"]
)
def test_promtool_agrees(command: str) -> None:
    assert shutil.which("promtool"), "promtool is missing; on Debian: apt-get install prometheus"
    done = subprocess.run(["promtool", *command.split()], cwd=PROMETHEUS, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_looks_where_outrider_up_serves_metrics() -> None:
    jobs = yaml.safe_load((PROMETHEUS / "prometheus.yaml").read_text())["scrape_configs"]
    found = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    services = ("orchestrator", "draft", "target")
    assert found == {f"outrider-{name}": [f"localhost:{METRICS_PORT + n}"] for n, name in enumerate(services)}
