"""What the controller is told before a round, what it says, and what it is told after. Values only."""

from dataclasses import dataclass, field
from enum import Enum


class Drafter(Enum):
    """Who guesses."""

    NONE = "none"
    NGRAM = "ngram"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Situation:
    """An answer before a round."""

    remaining: int
    """Tokens that may still be emitted; a block holds at most one fewer."""
    draft_available: bool = False
    """Whether the draft model is worth asking."""
    max_draft_tokens: int = 16
    """Most tokens of a block."""
    sessions: int = 1
    """Answers that share the target now, this one included."""
    draft_behind: int = 1
    """Tokens that the draft must read before it can guess; the prompt, at first."""
    ngram_tokens: int = 0
    """Tokens that the n-gram drafter offers."""
    ngram_match: int = 0
    """Tokens that they match before them."""
    prepared: int = 0
    """Draft tokens that look-ahead has ready for this round."""
    look_ahead_available: bool = True
    """Whether the draft takes requests to look ahead."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """What a decision was made from. Rates are tokens per second of this session."""

    chosen_rate: float = 0.0
    plain_rate: float = 0.0
    acceptance: tuple[float, ...] = ()
    """At positions from 1: share of the rounds proposing there whose token is accepted."""
    hit_rate: float = 0.0
    """Chance that look-ahead has prepared the outcome."""
    draft_s: float = 0.0
    """A draft token."""
    verify_s: float = 0.0
    """A verdict on such a block, its round trip included."""
    rtt_draft_s: float = 0.0
    rtt_target_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do in a round."""

    drafter: Drafter = Drafter.NONE
    draft_tokens: int = 0
    look_ahead: bool = False
    """Whether the draft prepares the next block while this one is verified."""
    fanout: tuple[int, ...] = ()
    """Outcomes to prepare for each number of accepted tokens, 0 to ``draft_tokens``."""
    covered: float = 0.0
    """Chance that the outcome is among them, by the draft's ranks alone."""
    run: int = 0
    """Further plain rounds to ask for at once; 0 when a block is sent."""
    breaks_off: bool = False
    """Whether a run that goes on is given up for it."""
    probe: bool = False
    """Whether it is done to learn, not because it is thought best."""
    estimates: Estimates = field(default_factory=Estimates)

    @property
    def kind(self) -> tuple[Drafter, bool]:
        """Who drafts, and whether it looks ahead."""
        return (self.drafter, self.look_ahead)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What became of a look-ahead, as soon as that is known."""

    draft_tokens: int
    fanout: tuple[int, ...]
    covered: float
    """As in the plan that asked for it."""
    accepted: int = 0
    """Draft tokens that the verdict accepted."""
    right: bool = False
    """Whether its answer came, in time or late, with a block for the outcome."""
    seconds: float | None = None
    """From its sending to its answer; None when that never came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What became of a round: one per verdict, those of a run included. Times are seconds."""

    plan: Plan
    proposed: int
    """Draft tokens sent to verify."""
    accepted: int
    """Of those, equal to the target's choices, also behind the end of the answer."""
    emitted: int
    propose_s: float = 0.0
    """From the round's begin until the block was there: 0 without one, or the wait for one being prepared."""
    verify_s: float
    """From the sending of the request, or in a run from the last verdict, to this verdict."""
    cycle_s: float = 0.0
    """From the answer's last verdict to this one, whatever was done in between; 0 where there was none."""
    follows: bool = False
    """Whether it is a further round of a run, so that no round trip is in it."""
    hit: bool | None = None
    """Whether look-ahead had prepared the outcome of this round; None when it did not look ahead."""
    preparation: Preparation | None = None
    """The last look-ahead, when what became of it was seen since the last observation."""
    draft_forward_s: float = 0.0
    """Of the propose call; 0 when there was none."""
    draft_queue_s: float = 0.0
    draft_passes: int = 0
    draft_batch_rows: int = 0
    """Rows of its last pass, all sessions together."""
    target_forward_s: float = 0.0
    target_queue_s: float = 0.0
    target_passes: int = 1
    target_batch_rows: int = 0
    """Rows of its last pass, all sessions together."""

    @property
    def took_s(self) -> float:
        """All the time that the round cost the answer."""
        return self.cycle_s or self.propose_s + self.verify_s
