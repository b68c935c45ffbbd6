"""What one draft and one target have shown: the pool's knowledge, shared by all answers. Pure: no clock, no I/O.

Its time is counted in tokens of a session: what is old in tokens is forgotten, so that rare probes are believed where
dense rounds are averaged. It knows costs and acceptance; what to do with them is the controller's.
"""

from dataclasses import replace

from orchestrator.acceptance import Acceptance
from orchestrator.budget import Budget
from orchestrator.copies import CopyAcceptance
from orchestrator.coverage import Coverage
from orchestrator.hits import Hits
from orchestrator.plans import Drafter, Observation, Preparation, Situation
from orchestrator.regimes import Regimes
from orchestrator.rounds import PLAIN, MeasuredRounds, formula_s
from orchestrator.timings import CAUGHT_UP, Timings

_HALF_LIFE = 1024.0
_HINDERED = 1.15
"""Times the usual time of its rows that a pass takes when looking ahead is in its way, and not by chance."""
_SOME_ROWS = 2
_PLAIN_ROUNDS = 4.0
"""Tokens of the target alone after which it is known what they cost."""


def note_acceptance(
    model: Acceptance, copies: CopyAcceptance, seen: Observation, situation: Situation, now: float
) -> None:
    """What a round says of whoever drafted its block."""
    if seen.proposed and seen.plan.drafter is Drafter.NGRAM:
        copies.note(situation.ngram_match, seen.proposed, seen.accepted, now)
    elif seen.proposed:
        model.note(seen.proposed, seen.accepted, now)


class PoolEstimates:
    """Owner of what is known of one pair. Answers read it through their controllers and report to it."""

    def __init__(self) -> None:
        self.now = 0.0
        """Tokens per session since the beginning."""
        self.timings = Timings()
        self.rounds = MeasuredRounds()
        self.hits = Hits()
        self.coverage = Coverage()
        self.budget = Budget()
        self.regimes = Regimes()
        self.acceptance = Acceptance(_HALF_LIFE)
        """Of the draft model."""
        self.copies = CopyAcceptance(_HALF_LIFE)

    def observe(self, seen: Observation, situation: Situation, first: bool) -> None:
        """Learn from a round; ``first`` is the answer's first, which has the prompt in it."""
        self.now += seen.emitted / situation.sessions
        delayed = situation.sessions > 1 and seen.plan.drafter is Drafter.NONE and self.budget.delays(self.now)
        if delayed:
            self._note_delay(seen, situation)
        self._note_timings(seen, situation, delayed)
        note_acceptance(self.acceptance, self.copies, seen, situation, self.now)
        if seen.preparation is not None:
            self._note_preparation(seen.preparation, situation.sessions)
        if not (first or delayed) and self._as_planned(seen, situation):
            self._note_round(seen, situation)

    def _note_preparation(self, asked: Preparation, sessions: int) -> None:
        """What became of a look-ahead. One that never came was of no use, and says nothing of what was in it."""
        self.hits.note(asked.draft_tokens, sessions, asked.covered, asked.right, self.now)
        if asked.seconds is None:
            return
        outcomes, costs = sum(asked.fanout), self.timings.costs(sessions, self.now)
        expected = costs.prepare_s(asked.draft_tokens, outcomes)
        self.hits.note_preparing(sessions, outcomes, asked.seconds / expected, self.now)
        if asked.accepted + 1 < len(asked.fanout):
            self.coverage.note(asked.fanout[asked.accepted], asked.right, self.now)

    def plain_known(self, sessions: int) -> bool:
        """Whether it was ever measured what the target alone makes at this load."""
        return self.rounds.seen(PLAIN, 0, sessions) >= _PLAIN_ROUNDS

    def plain_s(self, sessions: int) -> float:
        """Seconds of a token of the target alone."""
        costs = self.timings.costs(sessions, self.now)
        return self.rounds.seconds(PLAIN, 0, sessions, lambda count: replace(costs, sessions=count).plain_s(), self.now)

    def _note_timings(self, seen: Observation, situation: Situation, delayed: bool) -> None:
        """What passes took. Those that a look-ahead or a probe delays say what both cost at once, and those of the
        draft while answers come over to it have the texts in them that it reads."""
        sessions = situation.sessions
        if not (self._hindered(seen, sessions) > _HINDERED or delayed):
            self.timings.note_target(seen, self.now)
        if seen.plan.drafter is Drafter.MODEL:
            mixed = sessions > 1 and (
                seen.plan.look_ahead or not self.regimes.settled(seen.plan.kind, sessions, self.now)
            )
            by_itself = seen.plan.probe or not mixed
            self.timings.note_draft(seen, situation.draft_behind, self.now, by_itself)

    def _hindered(self, seen: Observation, sessions: int) -> float:
        """Times the usual time of its rows that a pass took beside a look-ahead; 0 for any other."""
        usual = self.timings.costs(sessions, self.now).target_s(max(1, seen.target_batch_rows))
        return seen.target_forward_s / usual if seen.plan.look_ahead else 0.0

    def _note_delay(self, seen: Observation, situation: Situation) -> None:
        """What a probe of one answer costs another."""
        if seen.follows and self._as_planned(seen, situation):
            self.budget.burden(min(1.0, seen.verify_s / self.plain_s(situation.sessions) - 1))

    @staticmethod
    def _as_planned(seen: Observation, situation: Situation) -> bool:
        """Whether a round was what was planned, with nobody's prompt in it."""
        k = seen.proposed
        short = seen.target_passes == 1 and seen.target_batch_rows <= 2 * situation.sessions * (1 + k) + _SOME_ROWS
        return short and bool(k) == bool(seen.plan.draft_tokens) and (not k or situation.draft_behind <= CAUGHT_UP)

    def _note_round(self, seen: Observation, situation: Situation) -> None:
        """While all do alike, a round shows what that costs, waiting included. In a mixture it shows only whether
        looking ahead slows the target down: when its pass took longer than passes of its rows do otherwise."""
        plan, sessions, costs = seen.plan, situation.sessions, self.timings.costs(situation.sessions, self.now)
        if self.regimes.settled(plan.kind, sessions, self.now):
            if plan.look_ahead and seen.draft_passes:
                self.hits.note_again(sessions, seen.propose_s / costs.propose_s(seen.proposed), self.now)
            took = seen.took_s
            if plan.breaks_off:
                took -= seen.target_queue_s  # behind the token of the run that was being computed
            if plan.look_ahead:
                took -= seen.propose_s  # its formula is that of the verdict; misses are counted apart
            if plan.drafter is Drafter.NONE and not seen.follows:
                took -= costs.rtt_target_s
            predicted = formula_s(plan.kind, seen.proposed, costs)
            self.rounds.note(plan.kind, seen.proposed, sessions, max(took, 1e-6), predicted, self.now)
        elif plan.look_ahead:
            slower = self._hindered(seen, sessions)
            if slower > _HINDERED:
                self.rounds.hint(plan.kind, sessions, slower, self.now)
