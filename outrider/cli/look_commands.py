"""The commands that look at what happens: numbers as they change, and single requests. They change nothing."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.command import DEFAULT_ADDRESS, Addresses, ApiKey, Json, run
from outrider.cli.console import fail, stdout
from outrider.cli.top import top as watch
from outrider.cli.trace import (
    Wish,
    fetch_trace,
    is_file,
    list_requests,
    parse_rounds,
    read_file,
    requests_in,
    save_trace,
    show,
)
from outrider.errors import InvalidArgument


def top(
    address: Addresses = DEFAULT_ADDRESS,
    api_key: ApiKey = "",
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="One frame after one interval; so too in a pipe.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output, once.")] = False,
) -> None:
    """Show live what orchestrators and their replicas do; Ctrl-C ends it."""
    run(watch(address, api_key, every, once or as_json or not stdout.is_terminal, as_json))


def trace(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="ID|FILE",
            help="Session or trace id, or the start of one; or a file of OTLP JSON. Without: the last requests.",
            show_default=False,
        ),
    ] = None,
    address: Addresses = DEFAULT_ADDRESS,
    api_key: ApiKey = "",
    tenant: Annotated[str, typer.Option(help="Whose requests, where there are no API keys.", show_default=False)] = "",
    chosen: Annotated[
        str | None, typer.Option("--trace", metavar="ID", help="Of several in a FILE; else the last one.")
    ] = None,
    rounds: Annotated[str | None, typer.Option(metavar="A-B", help="Only rounds of these numbers.")] = None,
    last: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the last N rounds.")] = None,
    lanes: Annotated[bool, typer.Option("--lanes", help="A line each for orchestrator, draft and target.")] = False,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the spans there, as OTLP JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Draw one request round by round, or list the last ones."""
    try:
        from_file = what is not None and is_file(what)
        _refuse(what is None, {"--rounds": rounds, "--last": last, "--lanes": lanes or None}, "needs an ID or a FILE")
        _refuse(what is None or from_file, {"--save": save}, "needs an ID: it saves what an orchestrator remembers")
        _refuse(not from_file, {"--trace": chosen}, "chooses among the requests of a FILE")
        _refuse(rounds is not None, {"--last": last}, "cannot be combined with --rounds")
        wish = Wish(parse_rounds(rounds) if rounds is not None else None, last, lanes, as_json)
        if what is None:
            run(list_requests(address, api_key, tenant, as_json))
        elif from_file:
            show(read_file(Path(what), chosen), wish)
        else:
            text = run(fetch_trace(address, api_key, tenant, what))
            if save is not None:
                save_trace(text, save)
            show(requests_in(text, "id")[-1], wish)
    except InvalidArgument as error:
        fail(error)


def _refuse(when: bool, options: dict[str, object], reason: str) -> None:
    """Raises InvalidArgument for an option that is given and has no meaning here."""
    for name, value in options.items():
        if when and value is not None:
            raise InvalidArgument(name, reason)
