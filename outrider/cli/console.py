"""The terminal: one console for results, one for progress and errors. NO_COLOR and pipes are honoured by rich."""

import json
from typing import Any, NoReturn

import typer
from rich.console import Console

from outrider.errors import InvalidArgument, OutriderError

stdout = Console(highlight=False, soft_wrap=True)
stderr = Console(stderr=True, highlight=False)

EXIT_FAILED = 1
EXIT_INVALID = 2


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_result(values: dict[str, Any]) -> None:
    """The closing line of a check or a benchmark, for scripts."""
    print(f"RESULT {json.dumps(values)}", flush=True)


def fail(error: Exception | str) -> NoReturn:
    """Print an error and exit: 2 for what the user asked wrongly, 1 for the rest."""
    text = error.message if isinstance(error, OutriderError) else str(error)
    reason = f"{error.reason}: " if isinstance(error, OutriderError) else ""
    stderr.print(f"[red]error:[/red] {reason}", end="")
    stderr.print(text, markup=False)
    raise typer.Exit(EXIT_INVALID if isinstance(error, InvalidArgument) else EXIT_FAILED)
