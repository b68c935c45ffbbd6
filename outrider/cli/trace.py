"""``outrider trace``: the last requests, or one of them round by round, from orchestrators or from a file of spans.

It knows where a trace comes from and how much of it is wanted, not how it is drawn.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from outrider import otlp_json
from outrider.cli.connecting import connect
from outrider.cli.console import print_json, stderr, stdout
from outrider.cli.lanes import requests_of
from outrider.cli.recent import fetch, recent, requests_table
from outrider.cli.traced import Request, Round
from outrider.cli.waterfall import head, lines_of_round, waterfall
from outrider.cli.wide import for_results
from outrider.errors import InvalidArgument

_NEEDS = 150
"""Columns that a list with whole ids needs."""
_AROUND = 9
"""Lines of a terminal that are not rounds."""
_LEAST_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Wish:
    """What of a request is wanted: rounds by number (first and last), or so many last ones; drawn how."""

    rounds: tuple[int, int] | None = None
    last: int | None = None
    in_lanes: bool = False
    as_json: bool = False

    def of(self, rounds: Sequence[Round], most: int) -> Sequence[Round]:
        """The rounds that are wanted, or as many of the first as there is room for. Raises InvalidArgument."""
        if self.last is not None:
            return rounds[-self.last :]
        if self.rounds is None:
            return rounds[:most]
        first, last = self.rounds
        chosen = [done for done in rounds if first <= done.number <= last]
        if rounds and not chosen:
            has = f"{rounds[0].number} to {rounds[-1].number}"
            raise InvalidArgument("--rounds", f"the request has rounds {has}, none of them in {first}-{last}")
        return chosen


def parse_rounds(text: str) -> tuple[int, int]:
    """ "8" or "8-20": numbers of rounds, both included. Raises InvalidArgument."""
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)) or int(first) > int(last or first):
        raise InvalidArgument("--rounds", f"must be a number or two like 8-20, got {text!r}")
    return int(first), int(last or first)


def is_file(what: str) -> bool:
    """Whether somebody means a file. Raises InvalidArgument for one that is not there, or none."""
    path = Path(what)
    if path.is_dir():
        raise InvalidArgument("FILE", f"{what} is a folder")
    if not path.exists() and ("/" in what or path.suffix in (".json", ".jsonl")):
        raise InvalidArgument("FILE", f"there is no {what}")
    return path.exists()


def requests_in(text: str, source: str) -> list[Request]:
    """The requests among saved spans, the last one last. Raises InvalidArgument when there is none."""
    try:
        found = requests_of(otlp_json.read(text))
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(source, str(error)) from None
    if not found:
        raise InvalidArgument(source, "there is no request of Outrider in it: no span `generate` of an orchestrator")
    return found


def read_file(path: Path, chosen: str | None) -> Request:
    """A request of a file: the one with this trace or session id, else the last one. Raises InvalidArgument."""
    try:
        found = requests_in(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InvalidArgument("FILE", f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(str(path), "this is no OTLP JSON: it is not UTF-8 text") from None
    if chosen is not None:
        found = [each for each in found if chosen in (each.trace_id, each.session_id)]
        if not found:
            raise InvalidArgument("--trace", f"{chosen!r} is no trace or session id of a request in {path}")
    elif len(found) > 1:
        stderr.print(f"{path} has {len(found)} requests; this is the last one (--trace ID takes another)", markup=False)
    return found[-1]


async def list_requests(address: str, api_key: str, tenant: str, as_json: bool) -> None:
    """Print what orchestrators remember. Raises OutriderError."""
    async with connect(address, api_key, os.environ) as client:
        requests = await recent(client, tenant)
    if as_json:
        print_json([each.as_dict() for each in requests])
    elif not requests:
        stderr.print("no request is remembered")
    else:
        console = for_results(stdout)
        console.print(requests_table(requests, short=console.width < _NEEDS))


async def fetch_trace(address: str, api_key: str, tenant: str, name: str) -> str:
    """The spans of a request that an orchestrator remembers, as OTLP JSON. Raises OutriderError."""
    async with connect(address, api_key, os.environ) as client:
        return await fetch(client, name, tenant)


def save_trace(text: str, path: Path) -> None:
    """Write spans to a file. Raises InvalidArgument."""
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument("--save", f"{path} cannot be written: {error.strerror}") from None
    stderr.print(f"saved in {path}", markup=False)


def show(request: Request, wish: Wish, console: Console = stdout) -> None:
    """Print a request as it is wanted. Raises InvalidArgument."""
    if wish.as_json:
        rounds = wish.of(request.rounds, len(request.rounds))
        print_json({**request.as_dict(), "rounds": [done.as_dict() for done in rounds]})
        return
    console = for_results(console)
    fitting = max(_LEAST_ROUNDS, (console.height - _AROUND) // lines_of_round(console, wish.in_lanes))
    rounds = wish.of(request.rounds, fitting if console.is_terminal else len(request.rounds))
    for line in (*head(request), *waterfall(rounds, console, wish.in_lanes)):
        console.print(line)
    if len(rounds) < len(request.rounds):
        left_out = f"{len(request.rounds) - len(rounds)} of {len(request.rounds)} rounds"
        console.print(f"{left_out} are not shown; --rounds A-B or --last N chooses", style="dim")
