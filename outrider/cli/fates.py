"""Tokens coloured by their fate, as ``render`` colours those that stream: texts where they are known, else ids.

What a trace says may come from anybody, so nothing of it reaches the terminal as a control character.
"""

import unicodedata
from collections.abc import Iterable
from itertools import groupby

from rich.text import Text

from outrider.cli.traced import Fate, Token

_STYLES = {
    Fate.ACCEPTED: "green",
    Fate.REJECTED: "red strike",
    Fate.CORRECTION: "blue",
    Fate.BONUS: "magenta",
    Fate.PLAIN: "default",
}
_BLOCKS = {Fate.ACCEPTED: "■", Fate.REJECTED: "□", Fate.CORRECTION: "◆", Fate.BONUS: "◆", Fate.PLAIN: "●"}
_SHOWN = {"\n": "⏎", "\t": "⇥", "\r": "␍"}


def coloured(tokens: Iterable[Token], colours: bool) -> Text:
    """A round's tokens in order; rejected ones in marks where there are no colours."""
    said = Text()
    for fate, each in groupby(tokens, key=lambda token: token.fate):
        group = list(each)
        words = "".join(map(_word, group))
        marked = fate is Fate.REJECTED and not colours and any(token.text is not None for token in group)
        said.append(f"[-{words}-]" if marked else words, _STYLES[fate])
    return said


def _word(token: Token) -> str:
    if token.text is not None:
        return clean(token.text)
    return _BLOCKS[token.fate] if token.id is None else f"<{token.id}>"


def clean(text: str) -> str:
    """Text of which every character can be printed."""
    return "".join(each if each.isprintable() else _SHOWN.get(each) or _unseen(each) for each in text)


def _unseen(character: str) -> str:
    return " " if unicodedata.category(character) == "Zs" else "\N{REPLACEMENT CHARACTER}"
