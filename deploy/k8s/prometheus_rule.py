"""The rules of deploy/observability as an object of the Prometheus operator.

``python -m deploy.k8s.prometheus_rule`` writes it. It does not know what the rules say.
"""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "observability" / "prometheus"
FILE = ROOT / "deploy" / "k8s" / "components" / "monitoring" / "prometheus-rule.yaml"
_HEAD = "# Made from deploy/observability/prometheus by `python -m deploy.k8s.prometheus_rule`.\n"


def _groups() -> list[dict[str, Any]]:
    """Groups of all files of rules; those of tests and settings have none."""
    files = [yaml.safe_load(path.read_text()) for path in sorted(RULES.glob("*.yaml"))]
    return [group for file in files for group in file.get("groups", [])]


def rendered() -> str:
    """The object as YAML."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "outrider"},
        "spec": {"groups": _groups()},
    }
    return _HEAD + str(yaml.safe_dump(rule, sort_keys=False, width=110))


if __name__ == "__main__":
    FILE.write_text(rendered())
