"""Coloured rounds show every committed character whole, and rejected tokens apart."""

import io

from rich.console import Console

from outrider.cli.render import RoundPrinter, Vocabulary
from outrider.v1 import orchestrator_pb2 as pb


class Bytes(Vocabulary):
    """One token per byte."""

    def text(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")


def shown(*deltas: pb.Delta) -> str:
    console = Console(file=io.StringIO(), color_system=None)
    printer = RoundPrinter(console, Bytes(None))
    for delta in deltas:
        printer.print(delta)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_character_that_spans_rounds_is_shown_whole() -> None:
    fox = "🦊".encode()
    assert shown(*(pb.Delta(token_ids=[byte]) for byte in fox)) == "🦊"


def test_a_rejected_token_stands_in_marks_without_colours() -> None:
    stats = pb.RoundStats(draft_tokens=[97, 98], num_accepted=1)
    assert shown(pb.Delta(token_ids=[97, 99], round=stats)) == "a[-b-]c"
