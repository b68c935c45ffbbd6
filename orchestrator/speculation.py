"""How many draft tokens a round asks for. Pure: no clock, no I/O; it changes the speed, never the text."""

from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """A request's wish."""

    AUTO = "auto"
    OFF = "off"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Speculation:
    """A request's mode, and its tokens per round when fixed."""

    mode: Mode = Mode.AUTO
    draft_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """Draft tokens per round. ``automatic`` is what AUTO uses; it will follow the measured acceptance."""

    speculation: Speculation
    automatic: int

    def draft_tokens(self, remaining: int) -> int:
        """Tokens to propose when ``remaining`` may still be emitted: the last of a round is the target's own."""
        wanted = {Mode.AUTO: self.automatic, Mode.OFF: 0, Mode.FIXED: self.speculation.draft_tokens}
        return max(0, min(wanted[self.speculation.mode], remaining - 1))

    def run(self, remaining: int) -> int:
        """Plain rounds that the target goes on with unasked after one without a block."""
        return 0 if self.draft_tokens(16) and remaining > 1 else max(0, min(16, remaining) - 1)
