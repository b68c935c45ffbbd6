"""Rounds are drawn on one axis that fits the terminal, with each token's fate, in colours and without."""

import io

import pytest
from rich.console import Console

from outrider import semconv
from outrider.cli.bars import Bar, Kind, Lane
from outrider.cli.cells import axis, cells, scale_us
from outrider.cli.fates import clean, coloured
from outrider.cli.lanes import requests_of
from outrider.cli.traced import Fate, Round, Token
from outrider.cli.waterfall import head, waterfall
from tests.unit.cli.traces import Trace, event, two_rounds

REQUEST = requests_of(two_rounds().spans)[0]


def console(width: int, colours: bool = False) -> Console:
    return Console(
        file=io.StringIO(), width=width, height=40, force_terminal=colours, soft_wrap=True, highlight=False,
        color_system="standard" if colours else None,
    )  # fmt: skip


def drawn(width: int, in_lanes: bool = False, rounds: tuple[Round, ...] = REQUEST.rounds) -> list[str]:
    return [line.plain for line in waterfall(rounds, console(width), in_lanes)]


def round_of(*bars: Bar, end_us: int = 100) -> Round:
    return Round(0, "serial", 0, end_us, 1, 1, 1, 2, bars=bars)


def test_the_head_says_what_the_request_came_to() -> None:
    text = "\n".join(line.plain for line in head(REQUEST))
    for words in (
        "big: 3 tokens, 2 rounds of 1.50, 1 of 2 draft tokens accepted (50%)",
        "first token 12.0 ms, all 50.0 ms; queue 0.5 ms, prefill 10.0 ms of 30 tokens (8 cached); stop",
        f"session {'s' * 32}, trace {'a' * 32}",
    ):
        assert words in text


def test_a_round_is_a_line_with_draft_above_target() -> None:
    heads, first, second, *_ = drawn(120)
    assert first.split()[:6] == ["0", "1.0", "11.0", "target_only", "0", "0/0"]
    assert second.split()[:6] == ["1", "20.0", "30.0", "serial", "2", "1/2"]
    begin = heads.index("0 ms")
    assert first[begin:].split()[0].strip("─·░▄") == "", "no draft in a round of the target alone"
    order = [mark for mark in second[begin:] if mark in "▀▄"]
    assert order == sorted(order), "the draft came before the target"
    assert second.rstrip().endswith(" fox[- ran-] is")


def test_both_at_once_are_seen_at_once() -> None:
    both = round_of(Bar(Lane.DRAFT, Kind.WORK, 0, 100), Bar(Lane.TARGET, Kind.WORK, 0, 100))
    assert "█" in drawn(120, rounds=(both,))[1]
    in_colours = console(120, colours=True)
    for line in waterfall([both], in_colours):
        in_colours.print(line)
    assert isinstance(in_colours.file, io.StringIO)
    assert "\x1b[36;43m▀" in in_colours.file.getvalue()


def test_each_lane_can_have_its_own_line() -> None:
    lines = drawn(100, in_lanes=True)
    assert [line.split()[0] for line in lines[1:5]] == ["0", "draft", "target", "The"]
    begin = lines[0].index("0 ms")
    assert lines[2][begin:].strip() == "", "nobody asked the draft"
    assert lines[3][begin:].startswith("··") and "█" in lines[3]


@pytest.mark.parametrize("width", [60, 80, 100, 132, 200])
@pytest.mark.parametrize("in_lanes", [False, True])
def test_rounds_fit_the_terminal(width: int, in_lanes: bool) -> None:
    legend = 2
    assert max(map(len, drawn(width, in_lanes)[:-legend])) <= width


def test_tokens_that_do_not_fit_go_on_below_where_they_began() -> None:
    block = tuple(Token(Fate.ACCEPTED, f" word{number}") for number in range(30))
    done = Round(3, "serial", 0, 100, 30, 30, 30, 31, tokens=block)
    heads, first, *more = drawn(120, rounds=(done,))[:-2]
    column = heads.index("tokens")
    assert more and all(not line[:column].strip() and line[column:].strip() for line in more)
    assert " ".join(" ".join(line[column:].split()) for line in (first, *more)).split() == [
        f"word{number}" for number in range(30)
    ]


def test_what_went_wrong_stands_below_its_round() -> None:
    trace = Trace()
    root = trace.request(9_000)
    missed = (event(semconv.EVENT_DRAFT_FAULT, 4_000, error__type="Unavailable"),)
    trace.round(root, 0, 0, 5_000, events=missed)
    trace.round(root, 1, 5_000, 9_000)
    lines = [line.plain for line in waterfall(requests_of(trace.spans)[0].rounds, console(120))]
    assert lines[2].split(maxsplit=1) == ["4.0", "draft fault: Unavailable"]
    assert (lines[1].split()[0], lines[3].split()[0]) == ("0", "1")


def test_what_takes_most_of_a_cell_has_it() -> None:
    done = round_of(Bar(Lane.TARGET, Kind.NETWORK, 0, 14), Bar(Lane.TARGET, Kind.WORK, 14, 40))
    assert cells(done, Lane.TARGET, 10, 5) == [Kind.NETWORK, Kind.WORK, Kind.WORK, Kind.WORK, None]


def test_one_long_round_does_not_make_the_others_too_small_to_see() -> None:
    usual, long = round_of(end_us=100), round_of(end_us=10_000)
    assert scale_us([usual, usual, long]) == 300
    assert drawn(120, rounds=(usual, usual, long))[3].count("»") == 1
    assert "»" not in drawn(120, rounds=(usual, usual, long))[1]


def test_the_axis_has_round_numbers_where_they_belong() -> None:
    line = axis(60, 500)
    assert (line.index("0 ms"), line.index("10"), line.index("20")) == (0, 20, 40)
    assert len(line) == 60


def test_without_colours_rejected_tokens_stand_in_marks() -> None:
    tokens = [Token(Fate.ACCEPTED, "a"), Token(Fate.REJECTED, "b"), Token(Fate.REJECTED, "c"), Token(Fate.BONUS, "d")]
    assert coloured(tokens, False).plain == "a[-bc-]d"
    assert [(span.start, span.style) for span in coloured(tokens, True).spans] == [
        (0, "green"), (1, "red strike"), (3, "magenta"),
    ]  # fmt: skip


def test_ids_stand_in_for_texts_and_blocks_for_ids() -> None:
    fates = (Fate.ACCEPTED, Fate.REJECTED, Fate.CORRECTION)
    assert coloured([Token(fate, id=7) for fate in fates], False).plain == "<7><7><7>"
    assert coloured([Token(fate) for fate in fates], False).plain == "■□◆"


def test_no_text_of_a_trace_reaches_the_terminal_as_a_control_character() -> None:
    assert clean("a\nb\tc\x1b[31m\u202e\u00a0d") == "a⏎b⇥c\ufffd[31m\ufffd d"
    trace = Trace(session_id="\x1b]0;title\x07")
    root = trace.request(9_000, error="\x1b[2J", attributes={semconv.REQUEST_MODEL: "\x1b[5m", semconv.OUTCOME: "\x1b"})
    trace.round(root, 0, 0, 5_000, ["\x1b[1m"], ["\x1b[1m", "\r"], 1, mode="\x1b")
    request = requests_of(trace.spans)[0]
    assert "\x1b" not in "".join(line.plain for line in (*head(request), *waterfall(request.rounds, console(120))))


def test_without_a_colour_nothing_depends_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR leaves a terminal its other control codes, so marks must say what colours would."""
    monkeypatch.setenv("NO_COLOR", "1")
    both = round_of(Bar(Lane.DRAFT, Kind.WORK, 0, 100), Bar(Lane.TARGET, Kind.WORK, 0, 100))
    terminal = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="standard")
    lines = [line.plain for line in waterfall([*REQUEST.rounds, both], terminal)]
    assert any("[- ran-]" in line for line in lines) and any("█" in line for line in lines[1:-2])


def test_a_request_without_a_round_says_so() -> None:
    assert drawn(120, rounds=()) == ["no round has ended"]
