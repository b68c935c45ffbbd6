"""How answers look in a terminal: plain text, or each token coloured by its fate.

Accepted green, rejected red and struck through, the target's own token after them blue (the correction) or
magenta (the bonus). Without colours rejected tokens stand in [-brackets-].
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from outrider.client import Delta
from outrider.tokenizer import Tokenizer

_INCOMPLETE = "\ufffd"
LEGEND = "[green]accepted[/green] [red strike]rejected[/red strike] [blue]correction[/blue] [magenta]bonus[/magenta]"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Texts of single tokens; their numbers when the tokenizer's files are not on this machine."""

    tokenizer: Tokenizer | None

    @classmethod
    def of_model(cls, folder: str) -> "Vocabulary":
        """The vocabulary of a model folder, if it is here."""
        here = (Path(folder) / "tokenizer.json").is_file()
        return cls(Tokenizer.load(folder) if here else None)

    def text(self, tokens: list[int]) -> str:
        """The tokens as text."""
        if self.tokenizer is None:
            return "".join(f"<{token}>" for token in tokens)
        return str(self.tokenizer.fast.decode(tokens, skip_special_tokens=True))


class RoundPrinter:
    """Prints the rounds of one answer, each token coloured by fate.

    Bytes of a character that later tokens complete wait for them, and take the colour of the last.
    """

    def __init__(self, console: Console, vocabulary: Vocabulary) -> None:
        self._console = console
        self._vocabulary = vocabulary
        self._held: list[int] = []

    def print(self, delta: Delta) -> None:
        """One round; rejected tokens in marks where there are no colours."""
        done = delta.round
        block, accepted = (list(done.draft_tokens), done.num_accepted) if done is not None else ([], 0)
        emitted = list(delta.token_ids)
        own_style = "magenta" if accepted == len(block) and block else "blue" if block else "default"
        self._print_committed(emitted[:accepted], "green")
        self._print_rejected(self._vocabulary.text(block[accepted:]).strip(_INCOMPLETE))
        self._print_committed(emitted[accepted:], own_style)

    def _print_committed(self, tokens: list[int], style: str) -> None:
        self._held += tokens
        text = self._vocabulary.text(self._held)
        if text.endswith(_INCOMPLETE):
            return
        self._held = []
        self._console.print(f"[{style}]{escape(text)}[/{style}]", end="")

    def _print_rejected(self, text: str) -> None:
        if text:
            marked = text if self._console.color_system else f"[-{text}-]"
            self._console.print(f"[red strike]{escape(marked)}[/red strike]", end="")


@dataclass(frozen=True, slots=True)
class Summary:
    """What an answer cost; definitions as in the README."""

    tokens: int
    prompt_tokens: int
    seconds: float
    first_s: float
    rounds: int
    proposed: int
    accepted: int
    draft_faults: int
    reason: str
    cached_prompt_tokens: int = 0

    @property
    def acceptance_rate(self) -> float:
        """accepted / proposed; 0 when nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else 0.0

    @property
    def mean_accepted_length(self) -> float:
        """emitted / rounds, the target's own token included."""
        return self.tokens / self.rounds if self.rounds else 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens of the answer per second of the whole request."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "finish_reason": self.reason,
            "prompt_tokens": self.prompt_tokens,
            "cached_prompt_tokens": self.cached_prompt_tokens,
            "completion_tokens": self.tokens,
            "seconds": round(self.seconds, 4),
            "time_to_first_token_s": round(self.first_s, 4),
            "tokens_per_second": round(self.tokens_per_s, 2),
            "rounds": self.rounds,
            "proposed": self.proposed,
            "accepted": self.accepted,
            "acceptance_rate": round(self.acceptance_rate, 4),
            "mean_accepted_length": round(self.mean_accepted_length, 4),
            "draft_faults": self.draft_faults,
        }

    def line(self) -> str:
        """One line for a person."""
        return (
            f"{self.tokens} tokens in {self.seconds:.2f} s ({self.tokens_per_s:.1f} tok/s, first after "
            f"{self.first_s * 1000:.0f} ms), {self.rounds} rounds of {self.mean_accepted_length:.2f} tokens, "
            f"{self.accepted} of {self.proposed} draft tokens accepted ({self.acceptance_rate:.0%}), "
            f"{self.cached_prompt_tokens} of {self.prompt_tokens} prompt tokens were cached"
        )
