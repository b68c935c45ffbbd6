"""What every benchmark prints and writes: the machine, a table, a RESULT line, a file."""

import datetime
import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from outrider.cli.console import print_result

RESULTS = Path(__file__).parent / "results"


def empty_folder(folder: Path) -> Path:
    """The folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def machine(more_versions: Sequence[str] = ()) -> str:
    """Processor, cores, versions and date, for the table's caption. Peers outside our environment add theirs."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    cores = len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
    ours = (f"{name} {version(name)}" for name in ("torch", "transformers", "grpcio"))
    versions = ", ".join([*ours, *more_versions])
    return f"{model}, {cores} cores; Python {platform.python_version()}, {versions}; {datetime.date.today()}"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def publish(
    name: str,
    text: str,
    result: dict[str, Any],
    details: Mapping[str, Any] | None = None,
    more_versions: Sequence[str] = (),
) -> None:
    """Print the table and the RESULT line, and keep both in bench/results/; the details go into the JSON only."""
    caption = machine(more_versions)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(f"{text}\n\n{caption}\n")
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": caption, **result, **(details or {})}, indent=1))
    print(f"{text}\n\n{caption}")
    print_result(result)
