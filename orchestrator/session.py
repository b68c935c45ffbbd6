"""The acceptance loop of one answer: decide, guess k tokens, verify k+1, commit, until the answer ends.

The token list here is the truth; caches on either side are beliefs that a CacheMiss corrects (design I2, I3).
It knows rounds, blocks and verdicts. It knows neither gRPC nor torch nor where the replicas are: draft and
target are two Protocols.
"""

import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from opentelemetry.trace import INVALID_SPAN, Span

from orchestrator.answer import Answer
from orchestrator.caches import CacheView, resending
from orchestrator.drafting import Drafting, Guess
from orchestrator.ngram import NO_MATCH
from orchestrator.peers import Target, Verdict
from orchestrator.plans import Drafter, Observation, Plan, Situation
from orchestrator.totals import Round, Totals
from orchestrator.tracing import round_attributes
from outrider import semconv, spans, telemetry
from outrider.tokens import TokenLog


class Policy(Protocol):
    """Who decides what a round does; ``speculation.Controller``."""

    def decide(self, situation: Situation) -> Plan:
        """The plan of the next round, or of the run that it begins."""

    def break_off(self, situation: Situation) -> Plan | None:
        """The plan of the next round, if the run that goes on should give way to it."""

    def observe(self, seen: Observation) -> None:
        """What became of a round of the last plan."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Most draft tokens of a block, 0 for a request without speculation; whether there is a draft that should guess;
    how many answers share the target now; whether the draft may look ahead; and whether spans say the tokens."""

    max_draft_tokens: int
    draft_expected: bool = True
    answers: Callable[[], int] = lambda: 1
    look_ahead: bool = True
    trace_tokens: bool = False


@dataclass(slots=True)
class Generation:
    """One answer in the making. ``log`` holds the prompt and grows by what is committed."""

    log: TokenLog
    answer: Answer
    policy: Policy
    limits: Limits
    drafting: Drafting
    target: Target
    target_view: CacheView
    span: Span
    totals: Totals = field(default_factory=Totals)
    _next: int = 0
    _plan: Plan = field(default_factory=Plan)
    _others: int = 1
    _last_verdict: float = 0.0
    _cycle_s: float = 0.0

    async def rounds(self) -> AsyncGenerator[Round, None]:
        """Run rounds until the answer is finished."""
        async with contextlib.aclosing(self.drafting):
            while self.answer.finished is None:
                span = spans.child(self.span, semconv.SPAN_ROUND)
                with span:
                    done = await self._round(span)
                yield done

    async def _round(self, span: Span) -> Round:
        follows = self._goes_on()
        number = self._next
        if self._draft_away and self.answer.remaining > 1:  # the last token is the target's own anyway
            self.drafting.away(number, span)
        guess = Guess() if follows else await self.drafting.guess(self._plan, number, span)
        began = self._last_verdict if follows else time.perf_counter()
        self.drafting.look_ahead(self._plan, number, guess.tokens, span)
        verdict = await self._verify(number, guess.tokens, span)
        before, self._last_verdict = self._last_verdict, time.perf_counter()
        self._cycle_s = self._last_verdict - before if before else 0.0
        emitted = self._commit(guess, verdict)
        hit = self.drafting.collect(number, verdict.num_accepted, verdict.next_token, span)
        self._observe(guess, verdict, len(emitted), hit, began, follows)
        done = Round(
            number=number,
            block=guess.tokens,
            num_accepted=verdict.num_accepted,
            emitted=emitted,
            logprobs=verdict.logprobs[: len(emitted)],
            propose_us=int(guess.seconds * 1e6),
            verify_us=int((self._last_verdict - began) * 1e6),
            drafter=guess.drafter if guess.tokens else Drafter.NONE,
            prepared=guess.prepared,
            hit=hit,
            wasted=self.drafting.take_wasted(),
        )
        self._next += 1
        self.totals.add(done)
        self.totals.draft_faults = self.drafting.faults
        spans.describe(span, round_attributes, done, self._plan, self.limits.trace_tokens)
        return done

    def _goes_on(self) -> bool:
        """Whether the target goes on by itself in a run, as planned. Otherwise there is a new plan; rounds that are
        given up for it keep their numbers, under which their verdicts may still come."""
        coming, situation = self.target.coming, self._situation()
        plan = self.policy.break_off(situation) if coming else self.policy.decide(situation)
        if plan is None:
            return True
        self._plan, self._next = plan, self._next + coming
        return False

    @property
    def _draft_away(self) -> bool:
        """Whether a draft is expected, and cannot be asked."""
        expected = self.limits.max_draft_tokens > 0 and self.limits.draft_expected
        return expected and not self.drafting.draft.available

    def _situation(self) -> Situation:
        """What the controller decides by."""
        drafting, most = self.drafting, min(self.limits.max_draft_tokens, self.answer.remaining - 1)
        match = drafting.match(most) if most > 0 else NO_MATCH
        return Situation(
            remaining=self.answer.remaining,
            draft_available=drafting.draft.available,
            max_draft_tokens=self.limits.max_draft_tokens,
            sessions=max(1, self.limits.answers(), self._others),
            draft_behind=drafting.behind,
            ngram_tokens=len(match.tokens),
            ngram_match=match.length,
            prepared=drafting.ready,
            look_ahead_available=self.limits.look_ahead,
        )

    async def _verify(self, number: int, block: tuple[int, ...], span: Span) -> Verdict:
        run = 0 if block else max(0, min(self._plan.run, self.answer.remaining - 1))
        first = self.totals.rounds == 0
        with spans.child(self.span, semconv.SPAN_PREFILL) if first else INVALID_SPAN as prefill:
            verdict = await resending(
                self.target_view, self.log, lambda claim: self.target.verify(number, claim, block, run, span)
            )
            if first:  # the view now holds what the first claim that was taken began with
                self.totals.cached_prompt_tokens = self.target_view.claim(self.log).prefix_len + verdict.shared
                prefill.set_attributes(self._prefill_attributes(len(self.log), verdict))
        self._others = verdict.rounds
        return verdict

    def _prefill_attributes(self, prompt_length: int, verdict: Verdict) -> dict[str, int | bool]:
        return {
            semconv.INPUT_TOKENS: prompt_length,
            semconv.CACHED_PROMPT: self.totals.cached_prompt_tokens,
            **telemetry.timing_attributes(verdict.timings),
        }

    def _commit(self, guess: Guess, verdict: Verdict) -> tuple[int, ...]:
        """Append the accepted tokens and the target's own, cut where the answer ends."""
        chosen = (*guess.tokens[: verdict.num_accepted], verdict.next_token)
        valid = len(self.log) + verdict.num_accepted
        emitted = chosen[: self.answer.extend(chosen)]
        self.log.extend(emitted)
        self.target_view.length = min(verdict.cached_len, len(self.log))
        self.drafting.committed(emitted, valid)
        return emitted

    def _observe(
        self, guess: Guess, verdict: Verdict, emitted: int, hit: bool | None, began: float, follows: bool
    ) -> None:
        drafted, judged = guess.timings, verdict.timings
        self.policy.observe(
            Observation(
                plan=self._plan,
                proposed=len(guess.tokens),
                accepted=verdict.num_accepted,
                emitted=emitted,
                propose_s=guess.seconds,
                verify_s=self._last_verdict - began,
                cycle_s=self._cycle_s,
                follows=follows,
                hit=hit,
                preparation=self.drafting.preparation(),
                draft_forward_s=drafted.forward_us / 1e6,
                draft_queue_s=drafted.queue_us / 1e6,
                draft_passes=drafted.passes,
                draft_batch_rows=drafted.batch_rows,
                target_forward_s=judged.forward_us / 1e6,
                target_queue_s=judged.queue_us / 1e6,
                target_passes=judged.passes,
                target_batch_rows=judged.batch_rows,
            )
        )
