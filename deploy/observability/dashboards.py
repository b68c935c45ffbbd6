"""Writes grafana/*.json: ``python -m deploy.observability.dashboards``.

The panels are in overview.py, speculation.py and replica.py. It knows where files go, not what is in them.
"""

import json
from pathlib import Path

from deploy.observability.overview import OVERVIEW
from deploy.observability.panels import as_grafana
from deploy.observability.replica import REPLICA
from deploy.observability.speculation import SPECULATION

FOLDER = Path(__file__).parent / "grafana"
DASHBOARDS = {"overview.json": OVERVIEW, "speculation.json": SPECULATION, "replica.json": REPLICA}


def rendered() -> dict[str, str]:
    """Text of each file, by name."""
    return {name: json.dumps(as_grafana(dashboard), indent=1) + "\n" for name, dashboard in DASHBOARDS.items()}


if __name__ == "__main__":
    for name, text in rendered().items():
        (FOLDER / name).write_text(text)
        print(FOLDER.relative_to(Path.cwd()) / name)
