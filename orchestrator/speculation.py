"""How many draft tokens a round asks for, of whom, and when. Pure: no clock, no I/O; it changes the speed, never the
text.

AUTO weighs the target alone, blocks of every useful length one after another or looking ahead, and copies from the
text, by expected tokens per second (``options.py``) from what the pool has measured (``estimates.py``) and the answer
itself has shown (``beliefs.py``), and changes only for a gain that stands out (``choosing.py``). Several answers on one
target do the same kind of rounds (``regimes.py``). Where it does not speculate it looks again now and then, and where
it does, at the target alone, for about one per cent of the time (``probes.py``, ``budget.py``).
"""

from dataclasses import dataclass, replace
from enum import Enum

from orchestrator.acceptance import through
from orchestrator.beliefs import Beliefs
from orchestrator.choosing import best_length, best_way
from orchestrator.estimates import PoolEstimates
from orchestrator.options import Option, Terms, ahead, copied, explain, plain, serial
from orchestrator.plans import Drafter, Estimates, Observation, Plan, Situation
from orchestrator.probes import Probes

_COPY_GAIN = 1.05
_WORTH_A_LOOK = 2.0
"""Tokens that a round must be expected to give before it is weighed whether a run gives way to it: it takes longer than
a plain one, and that comes on top of the token that is lost."""
_KEEP_ROUNDS = 5
"""Rounds that a choice stands before everything is weighed again."""
_SURPRISE, _MISSES = 3.0, 2
"""Times the expected seconds of a round, and blocks in a row without an accepted token, after which it weighs anew."""
_FIRST_RUN, _SHORT_RUN = 7, 3
"""Further plain rounds of a run that shows a new pool what they cost, and of one that something may interrupt."""
_FIRST_COPY = 7
"""Most tokens of a copy until one has come through to its end; then twice as many each time, until one fails."""
_COPIED_LATELY = 32
"""Tokens after a copy in which runs are short."""


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


class Controller:
    """Decides the rounds of one answer. Ask ``decide`` before a round (a run of plain rounds is one) and ``break_off``
    while a run goes on, and tell ``observe`` of every verdict."""

    def __init__(self, speculation: Speculation, pool: PoolEstimates, max_run: int = 15) -> None:
        """``max_run`` is the target's: further plain rounds that one request may ask for, 0 for none."""
        self._speculation = speculation
        self._pool = pool
        self._max_run = max_run
        self._beliefs = Beliefs(pool)
        self._probes = Probes(pool)
        self._situation = Situation(1)
        self._base = Option(Drafter.NONE, 0, 1.0, 1.0)
        self._estimates = Estimates()
        self._fresh = 0
        self._misses = 0
        self._shy = False
        self._emitted = 0
        self._copied_at = -_COPIED_LATELY
        self._longest_copy = _FIRST_COPY

    def decide(self, situation: Situation) -> Plan:
        """The plan of the next round."""
        self._situation = situation
        if self._speculation.mode is Mode.OFF:
            return self._plain_plan(self._max_run)
        if self._speculation.mode is Mode.FIXED:
            return self._fixed()
        if self._holds():
            self._fresh -= 1
            return self._block_plan(self._base)
        return self._weigh()

    def break_off(self, situation: Situation) -> Plan | None:
        """The copy that the run which goes on should give way to, although what the target computes meanwhile is lost;
        None, most of the time, where it should not. It takes microseconds where nothing is offered."""
        if self._speculation.mode is not Mode.AUTO or self._pool.regimes.looking(self._pool.now):
            return None
        acceptance = self._copy_acceptance(situation)
        if 1 + sum(acceptance) < _WORTH_A_LOOK:
            return None
        terms = self._beliefs.terms(situation, self._emitted)
        alone = plain(terms)
        copy = copied(terms, acceptance, lost_s=alone.seconds)
        if copy.rate <= _COPY_GAIN * alone.rate:
            return None
        self._situation = situation
        return replace(self._copy_plan(copy, terms, alone), breaks_off=True)

    def observe(self, seen: Observation) -> None:
        """What became of a round of the last plan."""
        self._pool.observe(seen, self._situation, first=self._emitted == 0)
        self._beliefs.note(seen, self._situation)
        self._emitted += seen.emitted
        if self._speculation.mode is not Mode.AUTO:
            return
        self._pool.budget.earn(seen.emitted)
        if seen.plan.probe and seen.plan.drafter is Drafter.MODEL:
            self._probes.came_back(seen)
        if seen.proposed and seen.plan.drafter is Drafter.NGRAM:
            through_all = seen.accepted == seen.proposed
            self._longest_copy = max(_FIRST_COPY, 2 * seen.proposed) if through_all else _FIRST_COPY
        if seen.proposed:
            self._misses = 0 if seen.accepted else self._misses + 1
            if self._misses >= _MISSES:
                self._fresh = 0
            if seen.plan.drafter is Drafter.MODEL and seen.took_s > _SURPRISE * self._base.seconds:
                self._fresh, self._shy = 0, True

    def _fixed(self) -> Plan:
        """As many as the request says, one after another; copies while there is no draft. Nothing runs on: one may be
        back soon, or something to copy come."""
        k = max(0, min(self._speculation.draft_tokens, self._situation.remaining - 1))
        if k and self._situation.draft_available:
            return Plan(Drafter.MODEL, k)
        copied = min(k, self._situation.ngram_tokens)
        return Plan(Drafter.NGRAM, copied) if copied else self._plain_plan(0)

    def _plain_plan(self, run: int, probe: bool = False) -> Plan:
        run = max(0, min(run, self._max_run, self._situation.remaining - 1))
        self._pool.regimes.run_tokens = run + 1
        return Plan(run=run, probe=probe, estimates=self._estimates)

    def _block_plan(self, option: Option, probe: bool = False) -> Plan:
        drafter, looks_ahead = option.kind
        return Plan(
            drafter,
            option.draft_tokens,
            looks_ahead,
            option.fanout,
            option.covered,
            probe=probe,
            estimates=self._estimates,
        )

    def _holds(self) -> bool:
        """Whether the last choice stands for this round without weighing everything again."""
        situation, base, regimes = self._situation, self._base, self._pool.regimes
        return (
            self._fresh > 0
            and not self._shy
            and base.drafter is Drafter.MODEL
            and situation.draft_available
            and base.draft_tokens < situation.remaining
            and situation.prepared in (0, base.draft_tokens)
            and not situation.ngram_tokens
            and not regimes.looking(self._pool.now)
            and (situation.sessions == 1 or regimes.way(situation.sessions)[0] == base.kind)
        )

    def _weigh(self) -> Plan:
        terms = self._beliefs.terms(self._situation, self._emitted)
        alone = plain(terms)
        self._base = self._choose(terms, alone)
        self._fresh = _KEEP_ROUNDS
        self._estimates = explain(terms, alone, self._base)
        if self._emitted == 0:
            return self._begin()
        copy = self._copy(terms)
        if copy is not None:
            return self._copy_plan(copy, terms, alone)
        if self._situation.prepared:
            return self._block_plan(self._prepared(terms))
        if self._base.drafter is Drafter.NONE:
            probe = self._probes.block(terms, alone, self._emitted)
            return self._block_plan(probe, probe=True) if probe else self._plain_plan(self._run_length())
        if self._probes.look_at_plain(self._base, alone, self._situation.sessions):
            return self._plain_plan(_SHORT_RUN, probe=True)
        return self._block_plan(self._careful(terms))

    def _choose(self, terms: Terms, alone: Option) -> Option:
        """The best way without copies: of this answer, or within the regime of all."""
        sessions, pool, regimes = self._situation.sessions, self._pool, self._pool.regimes
        if not (self._situation.draft_available and pool.timings.draft_known and terms.longest):
            return alone
        if sessions == 1:
            return best_way(terms, (self._base.kind, self._base.draft_tokens))
        if not pool.plain_known(sessions):
            return alone
        if regimes.due(pool.now):
            average = self._beliefs.terms(self._situation, self._emitted, own=False)
            best = best_way(average, regimes.way(sessions))
            gain = best.rate / plain(average).rate
            regimes.review(sessions, (best.kind, best.draft_tokens), gain, pool.now)
        return best_length(terms, regimes.way(sessions))

    def _begin(self) -> Plan:
        """The first round has the prompt in it: the first token waits for nobody, and what follows may speculate."""
        if not self._situation.draft_available:
            return self._plain_plan(self._max_run)
        if self._base.drafter is Drafter.NONE:
            return self._plain_plan(self._max_run if self._pool.timings.draft_known else _FIRST_RUN)
        return self._plain_plan(0)

    def _copy(self, terms: Terms) -> Option | None:
        """A copy from the text, where one is offered that beats what would be done else."""
        acceptance = self._copy_acceptance(self._situation)
        best = copied(terms, acceptance, each=1 + self._base.draft_tokens) if acceptance else None
        return best if best and best.rate > _COPY_GAIN * self._base.rate else None

    def _copy_acceptance(self, situation: Situation) -> tuple[float, ...]:
        """At the positions of all that may be copied now."""
        most = min(self._longest_copy, situation.max_draft_tokens, situation.remaining - 1)
        offered = max(0, min(situation.ngram_tokens, most))
        return through(self._beliefs.copied(situation.ngram_match, offered)) if offered else ()

    def _copy_plan(self, copy: Option, terms: Terms, alone: Option) -> Plan:
        self._copied_at = self._emitted
        return replace(self._block_plan(copy), estimates=explain(terms, alone, copy))

    def _prepared(self, terms: Terms) -> Option:
        """The block that look-ahead has ready, which costs no more than its verdict."""
        k = min(self._situation.prepared, terms.longest)
        if k == self._base.draft_tokens:
            return self._base
        return (ahead(terms, k) if self._base.fanout else None) or serial(terms, k)

    def _careful(self, terms: Terms) -> Option:
        """The choice; but after a round that took far too long, a single token to see whether the draft got slow."""
        shy, self._shy = self._shy, False
        return serial(terms, 1) if shy else self._base

    def _run_length(self) -> int:
        """Plain rounds to go on with; few where copies were good just now, so that the next is not missed. Where others
        would wait each time until it comes back, it is better to break a run off."""
        lately = self._emitted - self._copied_at < _COPIED_LATELY
        return _SHORT_RUN if lately and self._situation.sessions == 1 else self._max_run
