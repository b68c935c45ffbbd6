"""What ``outrider top`` shows: rates, acceptance by position, orchestrators, pools. It knows looks, not where numbers
come from.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from outrider.cli.fates import clean
from outrider.cli.top_counts import Rates
from outrider.cli.top_frame import Frame, Replica, orchestrator_dict

_LEVELS = " ▁▂▃▄▅▆▇█"
_NOTHING = "-"
_STATES = {
    "ready": "green",
    "serving": "green",
    "leaving": "yellow",
    "unavailable": "red",
    "away": "red",
    "refused": "red",
}


def _share(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


_ROWS: tuple[tuple[str, Callable[[Rates], str]], ...] = (
    ("requests/s", lambda rates: f"{rates.requests_per_s:.2f}"),
    ("tokens/s", lambda rates: f"{rates.tokens_per_s:.1f}"),
    ("rounds/s", lambda rates: f"{rates.rounds_per_s:.1f}"),
    ("prompt tokens/s", lambda rates: f"{rates.prompt_tokens_per_s:.1f}"),
    ("acceptance", lambda rates: _share(rates.counts.acceptance_rate)),
    ("mean accepted length", lambda rates: _number(rates.counts.mean_accepted_length)),
    ("look-ahead hits", lambda rates: _share(rates.counts.hit_rate)),
    ("fail-overs", lambda rates: str(rates.counts.failovers)),
    ("cache misses", lambda rates: str(rates.counts.cache_misses)),
)


def view(frame: Frame, at: datetime, every_s: float) -> RenderableType:
    """All of a frame."""
    running, waiting = (sum(getattr(info, name) for info in _infos(frame)) for name in _GAUGES)
    title = Text.assemble(
        ("outrider top ", "bold"),
        f"{at:%H:%M:%S}, every {every_s:g} s    ",
        (f"{running} running, {waiting} waiting", "bold"),
    )
    blank = Text()
    return Group(
        title, blank, _rates(frame), blank, *_positions(frame), blank, _orchestrators(frame), blank, _pools(frame)
    )


_GAUGES = ("active_requests", "waiting_requests")


def _infos(frame: Frame) -> Iterator[object]:
    return (each.info for each in frame.histories if each.info is not None)


def _columns(frame: Frame) -> tuple[tuple[str, Rates | None], ...]:
    """The stretches of time, with their length; one where both are the same."""
    both = (frame.last,) if frame.last == frame.minute else (frame.last, frame.minute)
    return tuple((f"last {rates.seconds:.1f} s" if rates else "measuring", rates) for rates in both)


def _rates(frame: Frame) -> Table:
    """Numbers in a column for each stretch of time, and beside them rounds by mode."""
    table = Table("", *(name for name, _ in _columns(frame)), box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, say in (*_ROWS, *_modes(frame)):
        table.add_row(name, *(say(rates) if rates else _NOTHING for _, rates in _columns(frame)))
    return table


def _modes(frame: Frame) -> Iterator[tuple[str, Callable[[Rates], str]]]:
    """A row for each mode that was seen within the minute."""
    for mode, count in frame.minute.counts.rounds_by_mode.items() if frame.minute else ():
        if count:
            yield f"rounds {clean(mode)}", partial(_part, mode)


def _part(mode: str, rates: Rates) -> str:
    counts = rates.counts
    return _share(counts.rounds_by_mode.get(mode, 0) / counts.rounds if counts.rounds else None)


def _positions(frame: Frame) -> Iterator[Text]:
    """Acceptance by place in the block as bars, per cent below them. Places that nobody proposed at are left out."""
    seen = max((place + 1 for place, count in enumerate(_proposed_at(frame)) if count), default=0)
    if not seen:
        yield Text("no draft tokens within the minute", "dim")
        return
    yield Text(f"{'place':>12}" + "".join(f"{place:>4}" for place in range(seen)) + "   % accepted", "bold")
    for name, rates in _columns(frame):
        at = rates.counts.acceptance_at[:seen] if rates else ()
        bars = "".join("    " if each is None else f"  {_LEVELS[round(each * 8)] * 2}" for each in at)
        yield Text.assemble(f"{name:>12}", (bars, "green"))
        yield Text(f"{'':>12}" + "".join(f"{_NOTHING if each is None else round(each * 100):>4}" for each in at), "dim")


def _proposed_at(frame: Frame) -> tuple[int, ...]:
    return frame.minute.counts.proposed_at if frame.minute else ()


def _orchestrators(frame: Frame) -> Table:
    table = Table("orchestrator", "state", "running", "waiting", "kept", "journal", "", box=None, pad_edge=False)
    for history in frame.histories:
        told = orchestrator_dict(history)
        numbers = (str(told.get(name, "")) for name in ("running", "waiting", "sessions_kept", "journal"))
        state = Text(told["state"], _STATES[told["state"]])
        table.add_row(clean(told["address"]), state, *numbers, Text(clean(told.get("reason", "")), "red"))
    return table


def _pools(frame: Frame) -> Table:
    table = Table("replica", box=None, pad_edge=False)
    for name in ("address", "state", "sessions", "rounds", "KV", "prefix hits"):
        table.add_column(name, no_wrap=True)
    for name in ("model", "weights", ""):
        table.add_column(name, overflow="ellipsis")
    for replica in frame.replicas:
        table.add_row(
            replica.role,
            clean(replica.address),
            _state(replica),
            str(replica.sessions),
            str(replica.pending_rounds),
            _NOTHING if replica.kv_share is None else f"{replica.kv_share:.1%}",
            _share(replica.prefix_hit_rate),
            clean(replica.model.rstrip("/").rpartition("/")[2]),
            clean(replica.weights.rpartition(" ")[2])[:8],
            Text(clean(replica.reason), "red"),
        )
    return table


def _state(replica: Replica) -> Text:
    """Where some of those who know it do not use it, how many do."""
    part = f" {replica.ready_at}/{replica.known_at}" if 0 < replica.ready_at < replica.known_at else ""
    return Text(replica.state + part, _STATES.get(replica.state, ""))
