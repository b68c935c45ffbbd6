"""What a client hears of an answer, as values. They come as Started, any number of Delta, Finished."""

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    """Why an answer ended: an end token, stop token or stop text; or the length asked for, or the context's end."""

    STOP = "stop"
    LENGTH = "length"
    UNKNOWN = "unknown"


class Drafter(StrEnum):
    """Who guessed a block: nobody, the draft model, or a copy from the text itself."""

    NONE = "none"
    MODEL = "model"
    NGRAM = "ngram"


@dataclass(frozen=True, slots=True)
class Started:
    """The request was taken. ``seed`` gives the same answer again; ``resumable`` says that it is journalled."""

    session_id: str
    seed: int
    target_model: str
    draft_model: str
    prompt_tokens: int
    resumable: bool
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """How a round went: the block, how much of it was accepted, and microseconds for the guess and for the verdict."""

    number: int
    draft_tokens: tuple[int, ...]
    num_accepted: int
    propose_us: int
    verify_us: int
    drafter: Drafter
    prepared: bool


@dataclass(frozen=True, slots=True)
class Delta:
    """What is new. ``text`` may be empty while bytes of a character or the start of a stop text are held back.

    ``logprobs`` has one entry per token when asked for. ``round`` is None where only a part of it is new.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    round: Round | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the prompt (earlier turns included), of the answer, and of the prompt those that were cached."""

    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class SpeculationSummary:
    """Sums over the rounds of an answer; of one that was resumed, over those since then."""

    rounds: int
    proposed: int
    accepted: int
    emitted: int
    draft_faults: int
    copied: int
    look_aheads: int
    look_ahead_hits: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete. ``session_id`` is the one to go on with, if the session was to be kept. ``losses``: how
    often its stream was lost and taken up again. ``numerics_changed``: as in the protocol."""

    reason: FinishReason
    usage: Usage
    speculation: SpeculationSummary
    numerics_changed: bool
    session_id: str
    losses: int = 0
    turns: int = 0


Event = Started | Delta | Finished


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    started: Started
    finished: Finished

    @property
    def session_id(self) -> str:
        """Session to go on with."""
        return self.finished.session_id

    @property
    def seed(self) -> int:
        """Key of the noise."""
        return self.started.seed
