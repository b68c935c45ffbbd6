"""What commands share: their options, and how a coroutine becomes a command with messages and exit codes."""

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from outrider.cli.console import fail
from outrider.cli.service import StackError
from outrider.errors import OutriderError
from outrider.home import models_folder

T = TypeVar("T")
DEFAULT_ADDRESS = "127.0.0.1:50051"
MAX_INT = 2**31 - 1
Address = Annotated[str, typer.Option(envvar="OUTRIDER_ADDRESS", help="Address of the service.")]
Addresses = Annotated[
    str, typer.Option("--address", envvar="OUTRIDER_ADDRESS", help="Of the orchestrator, or several with commas.")
]
ApiKey = Annotated[
    str, typer.Option(envvar="OUTRIDER_API_KEY", show_default=False, help="Better given by the variable.")
]
MaxNewTokens = Annotated[
    int | None, typer.Option("--max-new-tokens", "-n", max=MAX_INT, help="Most tokens of an answer.")
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
TargetModel = Annotated[
    str | None,
    typer.Option("--target", envvar="OUTRIDER_TARGET_MODEL", help="Folder of the target."),
]
DraftModel = Annotated[
    str | None,
    typer.Option("--draft", envvar="OUTRIDER_DRAFT_MODEL", help='Folder of the draft, or "none".'),
]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine; errors become messages and exit codes, and SIGTERM ends it like Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return asyncio.run(work)
    except (OutriderError, StackError) as error:
        fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def logs_folder(environment: Mapping[str, str]) -> Path:
    """Where services that a command starts write their logs."""
    return models_folder(environment).parent / "logs"
