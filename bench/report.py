"""What every benchmark prints and writes: the machine, a table, a RESULT line, a file."""

import datetime
import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from outrider.cli.console import print_result

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """Processor, cores, versions and date, for the table's caption."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    cores = len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "grpcio"))
    return f"{model}, {cores} cores; Python {platform.python_version()}, {versions}; {datetime.date.today()}"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def publish(name: str, text: str, result: dict[str, Any]) -> None:
    """Print the table and the RESULT line, and keep both in bench/results/."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(f"{text}\n\n{machine()}\n")
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine(), **result}, indent=1))
    print(f"{text}\n\n{machine()}")
    print_result(result)
