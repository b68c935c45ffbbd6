"""Where the draft tokens of a round come from: prepared while the last verdict was in flight, copied from the text, or
asked of the draft.

Losing any of it costs time only. It owns what is believed of the draft's cache and the index over the text, follows the
controller's plan, and does not know verdicts beyond what they say of a block.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from opentelemetry.trace import Span

from orchestrator.caches import CacheView, resending
from orchestrator.ngram import NO_MATCH, Match, NgramDrafter
from orchestrator.peers import Draft, Outcome, Prepared
from orchestrator.plans import Drafter, Plan, Preparation
from outrider import semconv
from outrider.errors import OutriderError, Unavailable
from outrider.round_timings import RoundTimings
from outrider.tasks import end
from outrider.tokens import CacheMiss, Claim, TokenLog


@dataclass(frozen=True, slots=True)
class Guess:
    """Draft tokens for a round, who guessed, whether look-ahead prepared them, and what the asking took."""

    tokens: tuple[int, ...] = ()
    drafter: Drafter = Drafter.NONE
    prepared: bool = False
    seconds: float = 0.0
    timings: RoundTimings = field(default_factory=RoundTimings)


@dataclass(slots=True)
class Drafting:
    """The guesses of one answer. ``faults`` counts rounds in which the draft was expected and was away or failed."""

    log: TokenLog
    draft: Draft
    view: CacheView
    faults: int = 0
    _copies: NgramDrafter | None = None
    _match: Match = NO_MATCH
    _ready: tuple[int, ...] = ()
    _late: Outcome | None = None  # of the last verdict, where what was prepared for it may still come
    _asking: asyncio.Task[None] | None = None
    _looked: bool = False
    _prepares: Preparation | None = None  # what the last look-ahead asked for, and what became of one
    _became: Preparation | None = None
    _faulty: int = -1  # the last round that was counted as a fault
    _wasted: int = 0  # draft tokens that came for other outcomes
    _untold: OutriderError | None = None  # trouble that came when the span of its round had ended

    @property
    def ready(self) -> int:
        """Draft tokens that look-ahead has prepared for the next round."""
        return len(self._ready)

    @property
    def behind(self) -> int:
        """Tokens that the draft must read before it can guess."""
        return len(self.log) - min(self.view.length, len(self.log) - 1)

    def match(self, count: int) -> Match:
        """What the text itself offers for the next round."""
        if self._copies is None:
            self._copies = NgramDrafter(self.log.tokens)
        self._match = self._copies.propose(count)
        return self._match

    async def guess(self, plan: Plan, number: int, span: Span) -> Guess:
        """The draft tokens of a round; none when the draft is away or in trouble."""
        ready, self._ready = self._ready, ()
        late, self._late = self._late, None
        if self._untold is not None:
            self._tell(self._untold, span)
        if plan.drafter is Drafter.NONE or plan.draft_tokens == 0:
            return Guess()
        if plan.drafter is Drafter.NGRAM:
            return Guess(self._match.tokens[: plan.draft_tokens], Drafter.NGRAM)
        if ready:
            return Guess(ready[: plan.draft_tokens], Drafter.MODEL, prepared=True)
        return await self._ask(plan.draft_tokens, number, span, late)

    async def _ask(self, count: int, number: int, span: Span, late: Outcome | None) -> Guess:
        began = time.perf_counter()
        if self._asking is not None:  # one message at a time; its own time is bounded
            await asyncio.wait({self._asking})
        try:
            if not self.draft.available:
                raise Unavailable("the draft has failed meanwhile")
            proposal = await resending(
                self.view, self.log, lambda claim: self.draft.propose(number, claim, count, span, late)
            )
        except OutriderError as error:
            self._fault(number, error, span)
            return Guess(drafter=Drafter.MODEL, seconds=time.perf_counter() - began)
        if late is not None:
            self._note(late[0], proposal.prepared)
        self.view.length = proposal.cached_len
        took = time.perf_counter() - began
        return Guess(proposal.tokens, Drafter.MODEL, proposal.prepared, took, proposal.timings)

    def look_ahead(self, plan: Plan, number: int, block: tuple[int, ...], span: Span) -> None:
        """Have the next block prepared while this one is verified. It waits for nothing."""
        wanted = plan.look_ahead and len(plan.fanout) == len(block) + 1
        self._looked = wanted and self._free and self.draft.available
        if self._looked:
            claim, count = self.view.claim(self.log), max(1, plan.draft_tokens)
            self._prepares = Preparation(count, plan.fanout, plan.covered)
            self._asking = asyncio.create_task(self._send(number, claim, block, plan.fanout, count, span))

    @property
    def _free(self) -> bool:
        """Whether no request is on its way out."""
        return self._asking is None or self._asking.done()

    async def _send(
        self, number: int, claim: Claim, block: tuple[int, ...], fanout: tuple[int, ...], count: int, span: Span
    ) -> None:
        try:
            await self.draft.look_ahead(number, claim, block, fanout, count, span)
        except OutriderError as error:
            self._fault(number, error, span)

    def committed(self, emitted: Sequence[int], valid: int) -> None:
        """``emitted`` was appended to the log, whose first ``valid`` tokens a cache of the block may hold."""
        self.view.length = min(self.view.length, valid, len(self.log))
        if self._copies is not None:
            self._copies.extend(emitted)

    def collect(self, number: int, accepted: int, next_token: int, span: Span) -> bool | None:
        """Take up the block that was prepared for this outcome. Whether there was one; None without a look-ahead.

        A request that is still on its way out is late: a draft that hangs holds up nothing. What is late may still be
        taken when it comes.
        """
        if not self._looked:
            return None
        if not self._free:
            self._late = (accepted, next_token)
            return False
        try:
            prepared = self.draft.prepared()
        except OutriderError as error:
            self._fault(number, error, span)
            return False
        if isinstance(prepared, Prepared):
            self.view.length = max(self.view.length, min(prepared.cached_len, len(self.log)))
            self._ready = prepared.blocks.get((accepted, next_token), ())
            self._wasted += sum(map(len, prepared.blocks.values())) - len(self._ready)
        elif isinstance(prepared, CacheMiss):
            self.view.length = prepared.cached_len
        else:
            self._late = (accepted, next_token)
            return False
        self._note(accepted, bool(self._ready))
        return bool(self._ready)

    def _note(self, accepted: int, right: bool) -> None:
        """What became of the last look-ahead is known."""
        if self._prepares is not None:
            took = self.draft.preparation_s()
            self._became = replace(self._prepares, accepted=accepted, right=right, seconds=took)

    def preparation(self) -> Preparation | None:
        """The last look-ahead, if what became of it was seen since this was last asked."""
        became, self._became = self._became, None
        return became

    def take_wasted(self) -> int:
        """Draft tokens that look-aheads brought for outcomes that were not, since this was last asked."""
        wasted, self._wasted = self._wasted, 0
        return wasted

    async def aclose(self) -> None:
        """Nothing is asked for any more."""
        await end(self._asking)

    def away(self, number: int, span: Span) -> None:
        """The draft is expected in this round, and is away."""
        if number != self._faulty:
            self.missing(number)
            span.add_event(semconv.EVENT_DRAFT_FAULT, {semconv.ERROR_TYPE: Unavailable.__name__})

    def missing(self, number: int) -> None:
        """The draft is expected in this round and is away."""
        if number != self._faulty:
            self.faults, self._faulty = self.faults + 1, number

    def _fault(self, number: int, error: OutriderError, span: Span) -> None:
        self.missing(number)
        self._tell(error, span)

    def _tell(self, error: OutriderError, span: Span) -> None:
        """Write an event into the span of the round, or of the next one when it has ended."""
        self._untold = None if span.is_recording() else error
        span.add_event(semconv.EVENT_DRAFT_FAULT, {semconv.ERROR_TYPE: type(error).__name__})
