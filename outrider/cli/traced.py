"""One request as its trace tells it: rounds with their tokens by fate, and bars on three lanes.

Values; they know neither spans nor how they are shown.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from outrider.cli.bars import Bar, Lane
from outrider.cli.notes import Note

UNFINISHED = "unfinished"
"""Mode of a round that failed or was cancelled: its span does not say what it was."""


class Fate(StrEnum):
    """What became of a token; ``PLAIN``: the target's own in a round without a block."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    CORRECTION = "correction"
    BONUS = "bonus"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Token:
    """A draft token, or one that was committed. Text and id are there as far as the trace has them."""

    fate: Fate
    text: str | None = None
    id: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        known = {"text": self.text, "id": self.id}
        return {"fate": self.fate.value, **{name: value for name, value in known.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Round:
    """One round; microseconds since the request came. ``draft_tokens``: k, what the plan asked for;
    ``prepared``: look-ahead had the block ready; ``look_ahead_hit``: it prepared for the outcome, None without."""

    number: int
    mode: str
    start_us: int
    end_us: int
    draft_tokens: int
    proposed: int
    accepted: int
    emitted: int
    prepared: bool = False
    look_ahead_hit: bool | None = None
    tokens: tuple[Token, ...] = ()
    bars: tuple[Bar, ...] = ()
    notes: tuple[Note, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        names = ("mode", "start_us", "end_us", "draft_tokens", "proposed", "accepted", "emitted", "prepared")
        return {
            "round": self.number,
            **{name: getattr(self, name) for name in names},
            **({} if self.look_ahead_hit is None else {"look_ahead_hit": self.look_ahead_hit}),
            "tokens": [token.as_dict() for token in self.tokens],
            "lanes": {lane.value: [bar.as_dict() for bar in self.bars if bar.lane is lane] for lane in Lane},
            "notes": [{"at_us": note.at_us, "text": note.text} for note in self.notes],
        }


@dataclass(frozen=True, slots=True)
class Request:
    """One request; durations in microseconds, None where the trace does not say. ``outcome`` is empty while it runs;
    ``left_out``: spans that its orchestrator did not keep."""

    trace_id: str
    session_id: str
    model: str
    outcome: str
    error: str
    started_unix_ns: int
    took_us: int
    prompt_tokens: int
    cached_prompt_tokens: int
    completion_tokens: int
    proposed: int
    accepted: int
    first_token_us: int | None
    queue_us: int | None
    prompt_us: int | None
    prefill_us: int | None
    left_out: int
    rounds: tuple[Round, ...]

    def as_dict(self) -> dict[str, Any]:
        """For --json, with all rounds."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "rounds"}
        return {**plain, "rounds": [done.as_dict() for done in self.rounds]}
