"""The last requests that orchestrators remember: all as a list, or the spans of one by its id or the start of it.

It knows calls and messages, not what a span says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from rich.table import Table

from outrider.cli.console import stderr
from outrider.cli.fates import clean
from outrider.client import Client
from outrider.client.line import Line
from outrider.errors import InvalidArgument, OutriderError, Unavailable
from outrider.v1 import orchestrator_pb2 as pb

T = TypeVar("T")
_ASK_S = 5.0
_FETCH_S = 60.0
_LEAST_PREFIX = 4
_SHORT_ID = 12
_COLUMNS = ("session", "trace", "when", "outcome", "prompt", "tokens", "rounds", "accepted", "first ms", "all ms")
_FIELDS = (
    "session_id", "trace_id", "started_unix_ns", "took_us", "outcome", "running", "prompt_tokens", "completion_tokens",
    "rounds", "proposed", "accepted", "first_token_us",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listed:
    """A request, and the orchestrator that remembers it."""

    line: Line
    summary: pb.RequestSummary

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        told = {name: getattr(self.summary, name) for name in _FIELDS}
        return {"orchestrator": self.line.address, **told}

    def matches(self, name: str) -> bool:
        """Whether it is what somebody calls so: an id, or its start."""
        ids = (self.summary.session_id, self.summary.trace_id)
        return name in ids or (len(name) >= _LEAST_PREFIX and any(each.startswith(name) for each in ids))


async def everywhere(lines: Sequence[Line], ask: Callable[[Line], Awaitable[T]]) -> list[tuple[Line, T]]:
    """What each orchestrator answers; those that do not are named on stderr. Raises OutriderError when none does."""
    answers = await asyncio.gather(*(ask(line) for line in lines), return_exceptions=True)
    given: list[tuple[Line, T]] = []
    failed: list[OutriderError] = []
    for line, answer in zip(lines, answers, strict=True):
        if isinstance(answer, OutriderError):
            failed.append(answer)
            if len(lines) > 1:
                stderr.print(f"{line.address} does not answer: {answer.message}", style="yellow", markup=False)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            given.append((line, answer))
    if not given:
        raise _hint(failed[0])
    return given


def _hint(error: OutriderError) -> OutriderError:
    away = isinstance(error, Unavailable) and "no orchestrator" in error.message
    return Unavailable(f"{error.message}; start one with `outrider up`") if away else error


async def recent(client: Client, tenant: str) -> list[Listed]:
    """All requests that are remembered, the last one first. Raises OutriderError."""
    answers = await everywhere(client.lines, lambda line: line.requests(tenant, _ASK_S))
    found = [Listed(line, summary) for line, answer in answers for summary in answer.requests]
    return sorted(found, key=lambda listed: listed.summary.started_unix_ns, reverse=True)


async def fetch(client: Client, name: str, tenant: str) -> str:
    """The spans of one request as OTLP JSON; of several of a session, the last one's. Raises OutriderError."""
    found = [listed for listed in await recent(client, tenant) if listed.matches(name)]
    exact = [listed for listed in found if name in (listed.summary.session_id, listed.summary.trace_id)]
    chosen = exact or found
    if not chosen:
        raise InvalidArgument("id", f"{name!r} is of no request that is remembered; `outrider trace` lists them")
    if not exact and len({(listed.line.address, listed.summary.session_id) for listed in chosen}) > 1:
        raise InvalidArgument("id", f"{name!r} is the start of {len(chosen)} ids; more of it is needed")
    first = chosen[0]
    name = first.summary.trace_id if first.summary.trace_id.startswith(name) else first.summary.session_id
    return (await first.line.trace(name, tenant, _FETCH_S)).otlp_json


def requests_table(requests: Iterable[Listed], short: bool) -> Table:
    """The list for people; ``short``: the start of ids, which is enough to ask for one."""
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for column in table.columns[4:]:
        column.justify = "right"
    for each in requests:
        told = each.summary
        size = _SHORT_ID if short else None
        table.add_row(
            clean(told.session_id)[:size],
            clean(told.trace_id)[:size],
            f"{datetime.fromtimestamp(told.started_unix_ns / 1e9):%Y-%m-%d %H:%M:%S}"[5 if short else 0 :],
            "running" if told.running else clean(told.outcome),
            *(str(count) for count in (told.prompt_tokens, told.completion_tokens, told.rounds)),
            f"{told.accepted}/{told.proposed}",
            *(f"{us / 1000:.1f}" if us else "" for us in (told.first_token_us, told.took_us)),
        )
    return table
