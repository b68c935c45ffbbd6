"""Draft and target as a session sees them: two Protocols, and the values that pass through them. They know neither gRPC
nor where a replica is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from opentelemetry.trace import Span

from outrider.round_timings import RoundTimings
from outrider.tokens import CacheMiss, Claim


@dataclass(frozen=True, slots=True)
class Proposal:
    """A block of draft tokens, and the length that the draft has cached. ``prepared``: a look-ahead brought it, later
    than the verdict and sooner than the answer to the question."""

    tokens: tuple[int, ...]
    cached_len: int
    timings: RoundTimings = field(default=RoundTimings(), compare=False)
    prepared: bool = False


Outcome = tuple[int, int]
"""Of a verdict: the number accepted, and the next token."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Blocks for outcomes of a verdict, and the length that the draft had cached."""

    blocks: Mapping[Outcome, tuple[int, ...]]
    cached_len: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Accepted draft tokens, then the correction or the bonus; the length that the target has cached; how many of
    the tokens sent it had cached for another session; and the rounds that it had in hand."""

    num_accepted: int
    next_token: int
    logprobs: tuple[float, ...]
    cached_len: int
    shared: int = 0
    timings: RoundTimings = field(default=RoundTimings(), compare=False)
    rounds: int = field(default=1, compare=False)


class Draft(Protocol):
    """The draft as a session sees it. ``available`` is False while it is away, failing or refused."""

    @property
    def available(self) -> bool:
        """Whether the draft is worth asking now."""

    async def propose(
        self, number: int, claim: Claim, count: int, span: Span, late: Outcome | None = None
    ) -> Proposal | CacheMiss:
        """At most ``count`` tokens; what the last look-ahead prepared for ``late`` will do, if that comes first. Raises
        OutriderError for any trouble, junk included."""

    async def look_ahead(
        self, number: int, claim: Claim, block: tuple[int, ...], fanout: tuple[int, ...], count: int, span: Span
    ) -> None:
        """Ask for ``count`` tokens after each of ``fanout[n]`` outcomes that accept n of the block; returns when
        sent. Raises OutriderError."""

    def prepared(self) -> Prepared | CacheMiss | None:
        """What the last look-ahead has brought by now. Raises OutriderError."""

    def preparation_s(self) -> float | None:
        """Seconds that the answer to the last look-ahead took, if it has come since this was last asked."""


class Target(Protocol):
    """The target as a session sees it. ``coming``: rounds without a block that it goes on with unasked."""

    @property
    def coming(self) -> int:
        """How many verdicts of a run are still to come. Another round than the next of them ends the run; its number
        must be above all of theirs."""

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, span: Span
    ) -> Verdict | CacheMiss:
        """The target's choices; it goes on with ``run`` more rounds unasked, or as many as it will. Raises
        OutriderError when the request cannot go on."""
