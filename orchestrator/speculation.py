"""How many draft tokens a round asks for, of whom, and when. Pure: no clock, no I/O; it changes the speed, never the
text.

AUTO weighs the target alone, blocks of every useful length one after another or looking ahead, and copies from the
text, by expected tokens per second (``options.py``) from what the pool has measured (``estimates.py``), and changes
only for a gain that stands out (``choosing.py``). Several answers on one target do the same kind of rounds
(``regimes.py``). Where it does not speculate it looks again now and then, and where it does, at the target alone, for
about one per cent of the time (``probing.py``).
"""

from dataclasses import dataclass, replace
from enum import Enum

from orchestrator.acceptance import Acceptance, through
from orchestrator.choosing import best_length, best_way
from orchestrator.estimates import PoolEstimates, Source, source_of
from orchestrator.options import Option, Terms, ahead, copied, lengths, plain, serial
from orchestrator.plans import Drafter, Estimates, Observation, Plan, Situation
from orchestrator.rounds import PLAIN
from outrider.throughput import Costs

_START = 1.05
_KEEP_ROUNDS = 4
_SESSION = 128.0
"""Tokens after which what an answer showed counts half."""
_SURPRISE = 3.0
_FIRST_RUN, _SHORT_RUN, _LOOK_RUN = 7, 3, 3
_LOOK_TOKENS = 8.0
_ENOUGH_ROUNDS, _SURE_GAIN = 8.0, 0.8
"""Recent plain rounds that must be known where speculation seems to gain little; where it gains much, fewer do."""
_PROBE_LENGTHS = (1, 2, 4, 8)
_LEAST_PRICE = 0.1
_FREE_READING = 0.01
"""Of the time in which tokens were made, what reading them costs the draft without being charged to probes."""
_LEAST_HORIZON = 32
_COPIED_LATELY = 32
_SHOWN = 8


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


class Controller:
    """Decides the rounds of one answer. Ask ``decide`` before a round (a run of plain rounds is one), and tell
    ``observe`` of every verdict."""

    def __init__(self, speculation: Speculation, pool: PoolEstimates, max_run: int = 15) -> None:
        """``max_run`` is the target's: further plain rounds that one request may ask for, 0 for none."""
        self._speculation = speculation
        self._pool = pool
        self._max_run = max_run
        self._own: dict[Source, Acceptance] = {}
        self._situation = Situation(1)
        self._base = Option(Drafter.NONE, 0, 1.0, 1.0)
        self._estimates = Estimates()
        self._probe_terms = (1.0, 0.0, 0.0)
        self._fresh = 0
        self._emitted = 0
        self._copied_at = -_COPIED_LATELY

    def decide(self, situation: Situation) -> Plan:
        """The plan of the next round."""
        self._situation = situation
        if self._speculation.mode is Mode.OFF:
            return self._plain_plan(self._max_run)
        if self._speculation.mode is Mode.FIXED:
            return self._fixed()
        return self._automatic()

    def observe(self, seen: Observation) -> None:
        """What became of a round of the last plan."""
        situation, pool = self._situation, self._pool
        pool.observe(seen, situation, first=self._emitted == 0)
        self._emitted += seen.emitted
        if seen.proposed:
            own = self._acceptance(source_of(seen.plan.drafter, situation.ngram_match))
            own.note(seen.proposed, seen.accepted, pool.now)
        if self._speculation.mode is Mode.AUTO:
            self._account(seen)

    def _account(self, seen: Observation) -> None:
        """Earnings and costs of learning; a round that took far longer than expected makes it think again."""
        took = seen.propose_s + seen.verify_s
        self._pool.budget.earn(seen.emitted)
        if seen.plan.probe and seen.plan.drafter is Drafter.MODEL:
            plain_s, expected, free_s = self._probe_terms
            loss = (took - free_s) / plain_s - 1 - expected
            self._pool.budget.settle(max(_LEAST_PRICE, loss), seen.accepted - expected, self._pool.now)
        if took > _SURPRISE * self._base.seconds:
            self._fresh = 0

    def _acceptance(self, source: Source) -> Acceptance:
        return self._own.setdefault(source, Acceptance(_SESSION))

    def _chances(self, source: Source, count: int, own: bool = True) -> tuple[float, ...]:
        """Of draft tokens: the pool's, or this answer's own record drawn to it."""
        now = self._pool.now
        pool = self._pool.acceptance(source).chances(count, now)
        return tuple(self._acceptance(source).chances_within(pool, now) if own else pool)

    def _plain_plan(self, run: int, probe: bool = False) -> Plan:
        run = max(0, min(run, self._max_run, self._situation.remaining - 1))
        self._pool.regimes.run_tokens = run + 1
        return Plan(run=run, probe=probe, estimates=self._estimates)

    def _block_plan(self, option: Option, probe: bool = False) -> Plan:
        drafter, looks_ahead = option.kind
        return Plan(drafter, option.draft_tokens, looks_ahead, option.fanout, probe=probe, estimates=self._estimates)

    def _fixed(self) -> Plan:
        """As many as the request says, one after another. Without a draft nothing runs on: it may be back soon."""
        k = max(0, min(self._speculation.draft_tokens, self._situation.remaining - 1))
        if k == 0 or not self._situation.draft_available:
            return self._plain_plan(0)
        return Plan(Drafter.MODEL, k)

    def _terms(self, own: bool = True) -> Terms:
        situation, pool = self._situation, self._pool
        chances = self._chances(source_of(Drafter.MODEL, 0), situation.max_draft_tokens + 1, own)
        horizon = min(situation.remaining, max(_LEAST_HORIZON, self._emitted))
        costs = pool.timings.costs(situation.sessions, pool.now)
        return Terms(pool, situation, costs, chances, through(chances), max(1, horizon))

    def _automatic(self) -> Plan:
        if self._holds():
            self._fresh -= 1
            return self._block_plan(self._base)
        terms = self._terms()
        alone = plain(terms)
        self._base = self._choose(terms, alone)
        self._fresh = _KEEP_ROUNDS
        self._estimates = self._explain(terms, alone, self._base)
        if self._emitted == 0:
            return self._begin()
        copy = self._copy(terms)
        if copy is not None:
            self._copied_at = self._emitted
            return replace(self._block_plan(copy), estimates=self._explain(terms, alone, copy))
        if self._situation.prepared:
            return self._block_plan(self._prepared(terms))
        if self._base.drafter is Drafter.NONE:
            return self._probe(terms, alone) or self._plain_plan(self._run_length())
        return self._look_at_plain(alone) or self._block_plan(self._base)

    def _holds(self) -> bool:
        """Whether the last choice stands for this round without weighing everything again."""
        situation, base, regimes = self._situation, self._base, self._pool.regimes
        return (
            self._fresh > 0
            and base.drafter is Drafter.MODEL
            and situation.draft_available
            and base.draft_tokens < situation.remaining
            and situation.prepared in (0, base.draft_tokens)
            and not situation.ngram_tokens
            and not regimes.looking(self._pool.now)
            and (situation.sessions == 1 or regimes.way(situation.sessions)[0] == base.kind)
        )

    def _begin(self) -> Plan:
        """The first round has the prompt in it: the first token waits for nobody, and what follows may speculate."""
        if not self._situation.draft_available:
            return self._plain_plan(self._max_run)
        if self._base.drafter is Drafter.NONE:
            return self._plain_plan(self._max_run if self._pool.timings.draft_known else _FIRST_RUN)
        return self._plain_plan(0)

    def _choose(self, terms: Terms, alone: Option) -> Option:
        """The best way without copies: of this answer, or within the regime of all."""
        situation, regimes, now = self._situation, self._pool.regimes, self._pool.now
        if not (situation.draft_available and self._pool.timings.draft_known and terms.longest):
            return alone
        if situation.sessions == 1:
            return best_way(terms, (self._base.kind, self._base.draft_tokens))
        if not self._pool.plain_known(situation.sessions):
            return alone
        if regimes.due(now):
            best = best_way(self._terms(own=False), regimes.way(situation.sessions))
            regimes.review(situation.sessions, (best.kind, best.draft_tokens), now)
        return best_length(terms, regimes.way(situation.sessions))

    def _prepared(self, terms: Terms) -> Option:
        """The block that look-ahead has ready, which costs no more than its verdict."""
        k = min(self._situation.prepared, terms.longest)
        if k == self._base.draft_tokens:
            return self._base
        return ahead(terms, k) if k and self._base.fanout else serial(terms, k)

    def _copy(self, terms: Terms) -> Option | None:
        """A copy from the text, where one is offered that beats what would be done else."""
        offered = min(self._situation.ngram_tokens, terms.longest)
        if not offered:
            return None
        acceptance = through(self._chances(source_of(Drafter.NGRAM, self._situation.ngram_match), offered))
        best = max((copied(terms, k, acceptance) for k in lengths(offered)), key=lambda option: option.rate)
        return best if best.rate > _START * self._base.rate else None

    def _run_length(self) -> int:
        """Plain rounds to go on with; few where copies were good just now, so that the next is not missed."""
        lately = self._emitted - self._copied_at < _COPIED_LATELY
        return _SHORT_RUN if lately else self._max_run

    def _probe(self, terms: Terms, alone: Option) -> Plan | None:
        """A small block to learn from, where that can be paid for."""
        several = self._situation.sessions > 1
        ready = self._situation.draft_available and terms.longest > 0
        if not ready or (several and not self._pool.plain_known(self._situation.sessions)):
            return None
        counts = [k for k in _PROBE_LENGTHS if k <= terms.longest] if self._pool.timings.draft_known else [1]
        option = max((serial(terms, k) for k in counts), key=lambda option: option.rate)
        expected = sum(terms.acceptance[: option.draft_tokens])
        behind = self._situation.draft_behind
        reading = self._pool.timings.reading_s(behind, terms.costs, self._pool.now)
        free = min(reading, _FREE_READING * behind * alone.seconds)
        took = self._probe_s(terms.costs, option.draft_tokens) + reading - free
        if not self._pool.budget.allows(max(_LEAST_PRICE, took / alone.seconds - 1 - expected), self._pool.now):
            return None
        self._probe_terms = (alone.seconds, expected, free)
        self._pool.budget.start(self._pool.now)
        return self._block_plan(option, probe=True)

    def _probe_s(self, costs: Costs, k: int) -> float:
        """Seconds of a round with a block that this answer alone makes."""
        propose = replace(costs, sessions=1).propose_s(k)
        return propose + costs.rtt_target_s + costs.target_s(self._situation.sessions + k)

    def _look_at_plain(self, alone: Option) -> Plan | None:
        """Plain rounds of all answers, when it was long ago that some showed what the target alone makes."""
        pool, sessions = self._pool, self._situation.sessions
        if not pool.regimes.looking(pool.now):
            gain = max(0.0, self._base.rate * alone.seconds - 1)
            price = _LOOK_TOKENS * sessions * gain
            enough = min(_ENOUGH_ROUNDS, _SURE_GAIN / max(gain, 0.01))
            if pool.rounds.weight(PLAIN, 0, sessions, pool.now) >= enough or not pool.budget.allows(price, pool.now):
                return None
            pool.budget.pay(price)
            pool.regimes.look(_LOOK_TOKENS, pool.now)
        return self._plain_plan(_LOOK_RUN, probe=True)

    def _explain(self, terms: Terms, alone: Option, chosen: Option) -> Estimates:
        k, costs = chosen.draft_tokens, terms.costs
        return Estimates(
            chosen_rate=chosen.rate,
            plain_rate=alone.rate,
            acceptance=terms.acceptance[: max(1, min(k, _SHOWN))],
            hit_rate=chosen.hit_rate,
            draft_s=costs.draft_s(costs.sessions),
            verify_s=costs.verify_s(k),
            rtt_draft_s=costs.rtt_draft_s,
            rtt_target_s=costs.rtt_target_s,
        )
