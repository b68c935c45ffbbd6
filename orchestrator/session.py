"""The acceptance loop of one answer: propose k, verify k+1, commit, until the answer ends.

The token list here is the truth; caches on either side are beliefs that a CacheMiss corrects (design I2, I3).
It knows rounds, blocks and verdicts. It knows neither gRPC nor torch nor where the replicas are: draft and
target are two Protocols.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from opentelemetry.trace import Span

from orchestrator.answer import Answer
from orchestrator.speculation import Policy
from outrider import telemetry
from outrider.errors import OutriderError, ProtocolViolation
from outrider.tokens import CacheMiss, Claim, TokenLog

_ATTEMPTS = 3  # as believed, as the replica says, from the first token


@dataclass(frozen=True, slots=True)
class Proposal:
    """A block of draft tokens, and the length that the draft has cached."""

    tokens: tuple[int, ...]
    cached_len: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Accepted draft tokens, then the correction or the bonus; the length that the target has cached; and how
    many of the tokens sent it had cached for another session."""

    num_accepted: int
    next_token: int
    logprobs: tuple[float, ...]
    cached_len: int
    shared: int = 0


class Draft(Protocol):
    """The draft as a session sees it. ``available`` is False while it is away, failing or refused."""

    @property
    def available(self) -> bool:
        """Whether the draft is worth asking now."""

    async def propose(self, number: int, claim: Claim, count: int, span: Span) -> Proposal | CacheMiss:
        """At most ``count`` tokens. Raises OutriderError for any trouble, junk included."""


class Target(Protocol):
    """The target as a session sees it. ``coming``: rounds without a block that it goes on with unasked."""

    @property
    def coming(self) -> int:
        """How many verdicts of a run are still to come; while there are any, no block can be sent."""

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, span: Span
    ) -> Verdict | CacheMiss:
        """The target's choices; it goes on with ``run`` more rounds unasked, or as many as it will. Raises
        OutriderError when the request cannot go on."""


@dataclass(slots=True)
class CacheView:
    """What the orchestrator believes that a replica has cached of a session."""

    length: int = 0

    def claim(self, log: TokenLog) -> Claim:
        """The believed prefix and all tokens after it, at least one."""
        prefix = min(self.length, len(log) - 1)
        return Claim(prefix, log.digest(prefix), tuple(log.since(prefix)))


@dataclass(frozen=True, slots=True)
class Round:
    """What one round did. Times in microseconds; ``propose_us`` is 0 when nothing was proposed."""

    number: int
    block: tuple[int, ...]
    num_accepted: int
    emitted: tuple[int, ...]
    logprobs: tuple[float, ...]
    propose_us: int
    verify_us: int


@dataclass(slots=True)
class Totals:
    """Sums over the rounds of an answer, by the definitions of the README."""

    rounds: int = 0
    proposed: int = 0
    accepted: int = 0
    emitted: int = 0
    draft_faults: int = 0
    cached_prompt_tokens: int = 0

    def add(self, done: Round) -> None:
        """Count a round."""
        self.rounds += 1
        self.proposed += len(done.block)
        self.accepted += done.num_accepted
        self.emitted += len(done.emitted)


Answered = TypeVar("Answered", Proposal, Verdict)


async def _resending(
    view: CacheView, log: TokenLog, send: Callable[[Claim], Awaitable[Answered | CacheMiss]]
) -> Answered:
    """Send the tokens after the believed prefix; on a CacheMiss believe the replica and send again."""
    for attempt in range(_ATTEMPTS):
        if attempt == _ATTEMPTS - 1:
            view.length = 0  # a cache that keeps shrinking under the offers: this claim always holds
        claim = view.claim(log)
        answer = await send(claim)
        if not isinstance(answer, CacheMiss):
            return answer
        if answer.cached_len >= claim.prefix_len and claim.prefix_len > 0:
            raise ProtocolViolation(f"cache miss at {claim.prefix_len} tokens offers {answer.cached_len}")
        view.length = answer.cached_len
    raise ProtocolViolation("the replica misses every prefix, the empty one included")


@dataclass(slots=True)
class Generation:
    """One answer in the making. ``log`` holds the prompt and grows by what is committed."""

    log: TokenLog
    answer: Answer
    policy: Policy
    draft: Draft
    target: Target
    draft_view: CacheView
    target_view: CacheView
    span: Span
    totals: Totals = field(default_factory=Totals)

    async def rounds(self) -> AsyncGenerator[Round, None]:
        """Run rounds until the answer is finished."""
        while self.answer.finished is None:
            number = self.totals.rounds
            span = telemetry.tracer().start_span(telemetry.SPAN_ROUND, telemetry.child_of(self.span))
            with telemetry.ending(span):
                began = time.perf_counter()
                block = () if self.target.coming else await self._propose(number, span)
                proposed = time.perf_counter()
                verdict = await self._verify(number, block, span)
                done = self._commit(number, block, verdict, (began, proposed, time.perf_counter()))
                self._describe(span, done)
            yield done

    async def _propose(self, number: int, span: Span) -> tuple[int, ...]:
        """The draft's guess; nothing when it is away or in trouble, which costs time only."""
        count = self.policy.draft_tokens(self.answer.remaining)
        if count == 0:
            return ()
        if not self.draft.available:
            self.totals.draft_faults += 1
            return ()
        try:
            proposal = await _resending(
                self.draft_view, self.log, lambda claim: self.draft.propose(number, claim, count, span)
            )
        except OutriderError as error:
            self.totals.draft_faults += 1
            span.add_event(telemetry.DRAFT_FAULT, {telemetry.ERROR_TYPE: type(error).__name__})
            return ()
        self.draft_view.length = proposal.cached_len
        return proposal.tokens

    async def _verify(self, number: int, block: tuple[int, ...], span: Span) -> Verdict:
        run = 0 if block else self.policy.run(self.answer.remaining)
        verdict = await _resending(
            self.target_view, self.log, lambda claim: self.target.verify(number, claim, block, run, span)
        )
        if self.totals.rounds == 0:  # the view now holds what the first claim that was taken began with
            self.totals.cached_prompt_tokens = self.target_view.claim(self.log).prefix_len + verdict.shared
        return verdict

    def _commit(
        self, number: int, block: tuple[int, ...], verdict: Verdict, times: tuple[float, float, float]
    ) -> Round:
        """Append the accepted tokens and the target's own, cut where the answer ends."""
        chosen = (*block[: verdict.num_accepted], verdict.next_token)
        valid = len(self.log) + verdict.num_accepted
        emitted = chosen[: self.answer.extend(chosen)]
        self.log.extend(emitted)
        self.target_view.length = min(verdict.cached_len, len(self.log))
        self.draft_view.length = min(self.draft_view.length, valid, len(self.log))
        began, proposed, verified = times
        done = Round(
            number=number,
            block=block,
            num_accepted=verdict.num_accepted,
            emitted=emitted,
            logprobs=verdict.logprobs[: len(emitted)],
            propose_us=int((proposed - began) * 1e6) if block else 0,
            verify_us=int((verified - proposed) * 1e6),
        )
        self.totals.add(done)
        return done

    def _describe(self, span: Span, done: Round) -> None:
        kind = "bonus" if done.num_accepted == len(done.block) else "correction"
        span.set_attributes(
            {
                telemetry.ROUND: done.number,
                telemetry.PROPOSED: len(done.block),
                telemetry.ACCEPTED: done.num_accepted,
                telemetry.EMITTED: len(done.emitted),
                telemetry.NEXT_TOKEN_KIND: kind,
            }
        )
