"""One request for a terminal: what it came to, then its rounds on a common axis of time, and their tokens by fate.

A round is one line, in which the draft has the upper half of each cell and the target the lower one; ``in_lanes`` gives
orchestrator, draft and target a line each. It knows how things look, not where they come from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Console
from rich.text import Text

from outrider.cli.bars import Kind, Lane
from outrider.cli.cells import axis, cells, goes_on, scale_us
from outrider.cli.fates import clean, coloured
from outrider.cli.render import LEGEND
from outrider.cli.traced import Request, Round

_COLOURS = {Lane.ORCHESTRATOR: "default", Lane.DRAFT: "cyan", Lane.TARGET: "yellow"}
_MARKS = {Kind.WORK: "█", Kind.WAIT: "░", Kind.NETWORK: "·", Kind.ASKED: "╌", Kind.FAILED: "×", None: " "}
_HEADS = f"{'round':>5} {'at ms':>8} {'ms':>7} {'mode':<11} {'k':>2} {'acc':>5} "
_LEAST_TOKENS = 24
_HALVES = "[cyan]▀[/] draft  [yellow]▄[/] target  █ both  ─ orchestrator  "
_LEGEND = "· on its way  ░ waits for a pass  ╌ answer not waited for  [red]×[/] failed  » goes on  + prepared"


@dataclass(frozen=True, slots=True)
class Look:
    """How rounds are drawn: cells of the axis and of the tokens beside it (0: those have lines of their own),
    microseconds of a cell, whether there are colours."""

    axis: int
    tokens: int
    cell_us: float
    coloured: bool


def look_of(console: Console, rounds: Sequence[Round], in_lanes: bool) -> Look:
    """What fits the width of a console."""
    room = console.width - len(_HEADS)
    beside = not in_lanes and room > 2 * _LEAST_TOKENS
    width = max(_LEAST_TOKENS // 2, room // 2 if beside else room)
    in_colours = bool(console.color_system) and not console.no_color
    return Look(width, room - width - 1 if beside else 0, scale_us(rounds) / width, in_colours)


def lines_of_round(console: Console, in_lanes: bool) -> int:
    """Lines that a round takes, about."""
    return 4 if in_lanes else 1 if look_of(console, (), in_lanes).tokens else 2


def head(request: Request) -> Iterator[Text]:
    """What the request came to."""
    rounds, name = len(request.rounds), request.model.rstrip("/").rpartition("/")[2]
    each = f" of {request.completion_tokens / rounds:.2f}" if rounds else ""
    rate = f" ({request.accepted / request.proposed:.0%})" if request.proposed else ""
    yield Text.assemble(
        (clean(name) or "no model", "bold"),
        f": {request.completion_tokens} tokens, {rounds} rounds{each}, {request.accepted} of {request.proposed} draft "
        f"tokens accepted{rate}; first token {_ms(request.first_token_us)}, all {_ms(request.took_us)}; queue "
        f"{_ms(request.queue_us)}, prefill {_ms(request.prefill_us)} of {request.prompt_tokens} tokens "
        f"({request.cached_prompt_tokens} cached); {clean(request.outcome) or 'running'}",
    )
    if request.error:
        yield Text(f"error: {clean(request.error)}", "red")
    if request.left_out:
        yield Text(f"{request.left_out} spans were not kept, for want of room", "yellow")
    yield Text(f"session {clean(request.session_id) or 'none'}, trace {clean(request.trace_id)}", "dim")


def waterfall(rounds: Sequence[Round], console: Console, in_lanes: bool = False) -> Iterator[Text]:
    """The rounds, on a line each or some, and what went wrong between them."""
    if not rounds:
        yield Text("no round has ended")
        return
    look = look_of(console, rounds, in_lanes)
    yield Text(_HEADS + axis(look.axis, look.cell_us) + (" tokens" if look.tokens else ""), "bold")
    for done in rounds:
        yield from (_in_lanes if in_lanes else _in_one_line)(done, look, console)
        for note in done.notes:
            yield Text(f"{'':>5} {note.at_us / 1000:>8.1f} {clean(note.text)}", "yellow")
    yield Text.from_markup(("█ works  " if in_lanes else _HALVES) + _LEGEND)
    yield Text.from_markup(LEGEND if look.coloured else "tokens: accepted[-rejected-]correction or bonus")


def _facts(done: Round) -> Text:
    took, rate = (done.end_us - done.start_us) / 1000, f"{done.accepted}/{done.proposed}"
    mode = clean(done.mode)[:11] + ("+" if done.prepared else "")
    when = f"{done.number:>5} {done.start_us / 1000:>8.1f} {took:>7.1f}"
    return Text(f"{when} {mode:<11} {done.draft_tokens:>2} {rate:>5} ")


def _in_one_line(done: Round, look: Look, console: Console) -> Iterator[Text]:
    own, draft, target = (cells(done, lane, look.cell_us, look.axis) for lane in Lane)
    drawn = [_halves(*each, look.coloured) for each in zip(own, draft, target)]
    same = [("".join(mark for mark, _ in each), style) for style, each in groupby(drawn, key=lambda cell: cell[1])]
    line = _facts(done) + _cut(Text.assemble(*same), done, look)
    said = coloured(done.tokens, look.coloured)
    if not look.tokens:
        yield line
        yield from _indented(said, 6, console.width - 6, console)
        return
    first, *rest = said.wrap(console, look.tokens, overflow="fold") or [Text()]
    yield line + " " + first
    yield from (Text(" " * (len(_HEADS) + look.axis + 1)) + more for more in rest)


def _halves(orchestrator: Kind | None, draft: Kind | None, target: Kind | None, coloured: bool) -> tuple[str, str]:
    """A cell of all three: who computes is seen first, then who waits."""
    if Kind.FAILED in (draft, target):
        return "×", "red"
    if draft is Kind.WORK and target is Kind.WORK:
        return ("▀", f"{_COLOURS[Lane.DRAFT]} on {_COLOURS[Lane.TARGET]}") if coloured else ("█", "")
    for lane, kind, mark in ((Lane.DRAFT, draft, "▀"), (Lane.TARGET, target, "▄")):
        if kind is Kind.WORK:
            return mark, _COLOURS[lane]
    for lane, kind in ((Lane.TARGET, target), (Lane.DRAFT, draft)):
        if kind in (Kind.WAIT, Kind.NETWORK):
            return _MARKS[kind], _COLOURS[lane]
    if orchestrator is not None:
        return "─", _COLOURS[Lane.ORCHESTRATOR]
    return _MARKS[draft or target], _COLOURS[Lane.DRAFT] if draft or target else ""


def _in_lanes(done: Round, look: Look, console: Console) -> Iterator[Text]:
    for lane in Lane:
        left = _facts(done) if lane is Lane.ORCHESTRATOR else Text(f"{lane.value:>{len(_HEADS) - 1}} ")
        marks = "".join(_MARKS[kind] for kind in cells(done, lane, look.cell_us, look.axis))
        yield left + _cut(Text(marks, _COLOURS[lane]), done, look)
    yield from _indented(coloured(done.tokens, look.coloured), len(_HEADS), look.axis, console)


def _cut(drawn: Text, done: Round, look: Look) -> Text:
    return drawn[:-1] + Text("»") if goes_on(done, look.cell_us, look.axis) else drawn


def _indented(said: Text, indent: int, width: int, console: Console) -> Iterator[Text]:
    for line in said.wrap(console, width, overflow="fold"):
        if line.plain:
            yield Text(" " * indent) + line


def _ms(us: int | None) -> str:
    return "unknown" if us is None else f"{us / 1000:.1f} ms"
