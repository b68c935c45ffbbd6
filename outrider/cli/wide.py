"""Where results go that nobody sees on a terminal: plain text, wide enough for tables. Reads the environment."""

import os

from rich.console import Console

_COLUMNS = 160


def for_results(console: Console) -> Console:
    """The console itself where it is a terminal; else one without colours, and as wide as COLUMNS says."""
    if console.is_terminal:
        return console
    width = console.width if "COLUMNS" in os.environ else _COLUMNS
    return Console(file=console.file, width=width, color_system=None, highlight=False, soft_wrap=True)
