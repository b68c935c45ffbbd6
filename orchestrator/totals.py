"""What a round did, and the sums over the rounds of an answer, by the definitions of the README."""

from dataclasses import dataclass

from orchestrator.plans import Drafter

_MODES = {Drafter.NONE: "target_only", Drafter.NGRAM: "copy", Drafter.MODEL: "serial"}


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did. Times in microseconds; ``propose_us`` is 0 when nobody was asked for the block, and
    ``verify_us`` in a run is the time since the verdict before it. ``prepared``: look-ahead had the block ready;
    ``hit``: it prepared for this round's outcome, None when it did not look ahead; ``wasted``: draft tokens that came,
    and were prepared for another outcome."""

    number: int
    block: tuple[int, ...]
    num_accepted: int
    emitted: tuple[int, ...]
    logprobs: tuple[float, ...]
    propose_us: int
    verify_us: int
    drafter: Drafter = Drafter.NONE
    prepared: bool = False
    hit: bool | None = None
    wasted: int = 0

    @property
    def mode(self) -> str:
        """What kind of round it was."""
        if self.hit is not None or self.prepared:
            return "look_ahead"
        return _MODES[self.drafter] if self.block else "target_only"


@dataclass(slots=True)
class Totals:
    """Sums over the rounds of an answer."""

    rounds: int = 0
    proposed: int = 0
    accepted: int = 0
    emitted: int = 0
    copied: int = 0
    look_aheads: int = 0
    hits: int = 0
    draft_faults: int = 0
    cached_prompt_tokens: int = 0

    def add(self, done: Round) -> None:
        """Count a round."""
        self.rounds += 1
        self.proposed += len(done.block)
        self.accepted += done.num_accepted
        self.emitted += len(done.emitted)
        self.copied += len(done.block) if done.drafter is Drafter.NGRAM else 0
        self.look_aheads += done.hit is not None
        self.hits += done.hit is True
