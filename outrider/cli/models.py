"""Which model folders a command uses, and their preparation in a process of its own (this one has no torch)."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from outrider.cli.console import stderr
from outrider.home import DRAFT_NAME, TARGET_NAME, models_folder

NO_DRAFT = "none"


def prepare_default(environment: Mapping[str, str]) -> None:
    """Make the default pair unless it is there. Exits with code 1 when that fails."""
    folder = models_folder(environment)
    if all((folder / name).is_dir() for name in (TARGET_NAME, DRAFT_NAME)):
        return
    with stderr.status("preparing the default pair, once (about half a minute)"):
        command = [sys.executable, "-m", "outrider.inference.prepare", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        stderr.print(f"[red]could not prepare the default pair:[/red]\n{done.stderr[-2000:]}", highlight=False)
        raise typer.Exit(1)


def chosen_pair(target: str | None, draft: str | None, environment: Mapping[str, str]) -> tuple[str, str | None]:
    """Folders of target and draft; the default pair is prepared when needed.

    A target of the user's own comes without a draft unless one is named too.
    """
    folder = models_folder(environment)
    if target is None or draft is None:
        draft = draft or (NO_DRAFT if target else str(folder / DRAFT_NAME))
        target = target or str(folder / TARGET_NAME)
    if str(folder) in (str(Path(target).parent), str(Path(draft).parent)):
        prepare_default(environment)
    return target, None if draft == NO_DRAFT else draft
