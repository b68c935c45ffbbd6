"""docs/why-is-it-slow.md names metrics, attributes, settings and places that there are."""

import dataclasses
import re
from pathlib import Path

from orchestrator.config import OrchestratorConfig
from outrider import semconv
from outrider.config import PREFIX
from outrider.replica_config import DraftConfig

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "why-is-it-slow.md").read_text()
WORDS = {word.split("=")[0] for word in re.findall("`([^`]+)`", PAGE)}


def _anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_its_metrics_are_those_of_semconv() -> None:
    named = {word for word in WORDS if re.match("outrider_|gen_ai_|rpc_", word)}
    assert len(named) > 20
    assert named <= {metric.prometheus for metric in semconv.METRICS}


def test_its_attributes_and_events_are_those_of_semconv() -> None:
    named = {word for word in WORDS if re.match(r"outrider\.|gen_ai\.|server\.", word)}
    assert len(named) > 15
    assert named <= {each.name for each in (*semconv.ATTRIBUTES, *semconv.EVENTS)}


def test_its_settings_are_read_by_a_service() -> None:
    settings = {
        PREFIX + field.name.upper() for kind in (OrchestratorConfig, DraftConfig) for field in dataclasses.fields(kind)
    }
    named = {word for word in WORDS if word.startswith(PREFIX)}
    assert len(named) > 20
    assert named <= settings


def test_its_links_lead_somewhere() -> None:
    for path, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", PAGE):
        target = (DOCS / path).resolve() if path else DOCS / "why-is-it-slow.md"
        assert target.exists(), path
        assert not anchor or anchor in _anchors(target.read_text()), anchor
