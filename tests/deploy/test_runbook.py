"""docs/kubernetes/runbook.md has a section for each alert and no other ones; what the pages name is there."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.config import OrchestratorConfig
from outrider import semconv
from outrider.config import PREFIX
from outrider.replica_config import DraftConfig
from outrider.wire import PROTOCOL_VERSION

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "kubernetes"
PAGES = ("runbook.md", "upgrade.md", "sizing.md")
RUNBOOK = (FOLDER / "runbook.md").read_text()
PARTS = ("**Means.**", "**Look.**", "**Do.**", "**Wake somebody**", "More: [why](../why-is-it-slow.md#")
SECTIONS = {part.splitlines()[0]: " ".join(part.split()) for part in re.split(r"^## ", RUNBOOK, flags=re.MULTILINE)[1:]}
_BY_HAND = {"OUTRIDER_API_KEY", "OUTRIDER_TLS_NAME"}
"""Read by the command line alone."""


def _alerts() -> Iterator[dict[str, Any]]:
    for path in (ROOT / "deploy" / "observability" / "prometheus").glob("*.yaml"):
        for group in yaml.safe_load(path.read_text()).get("groups", []):
            yield from (rule for rule in group["rules"] if "alert" in rule)


NAMES = {alert["alert"] for alert in _alerts()}


def _anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_each_alert_has_a_section_and_no_section_is_without_alert() -> None:
    assert {name for name in SECTIONS if name != "How to look"} == NAMES


def test_each_alert_leads_to_its_section() -> None:
    led = {alert["annotations"]["runbook_url"] for alert in _alerts()}
    assert led == {f"docs/kubernetes/runbook.md#{name.lower()}" for name in NAMES}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_section_says_what_it_means_how_to_look_what_to_do_and_when_to_wake_somebody(name: str) -> None:
    places = [SECTIONS[name].find(part) for part in PARTS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_critical_alert_wakes_somebody(name: str) -> None:
    severities = {alert["labels"]["severity"] for alert in _alerts() if alert["alert"] == name}
    said = SECTIONS[name].split("**Wake somebody**")[1]
    assert ("critical" in severities) == said.startswith((" at once", " for critical"))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (FOLDER / page).read_text()
    for path, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        target = (FOLDER / path).resolve() if path else FOLDER / page
        assert target.exists(), path
        assert not anchor or anchor in _anchors(target.read_text()), anchor


@pytest.mark.parametrize("page", PAGES)
def test_settings_and_metrics_are_those_of_the_code(page: str) -> None:
    text = (FOLDER / page).read_text()
    fields = {PREFIX + f.name.upper() for kind in (OrchestratorConfig, DraftConfig) for f in dataclasses.fields(kind)}
    assert set(re.findall(r"OUTRIDER_[A-Z_]+", text)) - _BY_HAND <= fields
    metrics = {metric.prometheus for metric in semconv.METRICS} | {"process_cpu_seconds_total"}
    assert set(re.findall(r"`((?:outrider|process)_[a-z_]+)`", text)) <= metrics


def test_the_first_lines_of_the_upgrade_page_name_the_protocol_version_of_the_code() -> None:
    page = " ".join((FOLDER / "upgrade.md").read_text().split())
    assert f"The number is {PROTOCOL_VERSION}," in page
