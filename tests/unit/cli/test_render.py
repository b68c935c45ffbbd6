"""Coloured rounds show every committed character whole, and rejected tokens apart."""

import io

from rich.console import Console

from outrider.cli.render import RoundPrinter, Vocabulary
from outrider.client import Delta, Drafter, Round


class Bytes(Vocabulary):
    """One token per byte."""

    def text(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")


def shown(*deltas: Delta) -> str:
    console = Console(file=io.StringIO(), color_system=None)
    printer = RoundPrinter(console, Bytes(None))
    for delta in deltas:
        printer.print(delta)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_character_that_spans_rounds_is_shown_whole() -> None:
    fox = "🦊".encode()
    assert shown(*(Delta("", (byte,)) for byte in fox)) == "🦊"


def test_a_rejected_token_stands_in_marks_without_colours() -> None:
    done = Round(0, (97, 98), 1, 0, 0, Drafter.MODEL, False)
    assert shown(Delta("", (97, 99), (), done)) == "a[-b-]c"
