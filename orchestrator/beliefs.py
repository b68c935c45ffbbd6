"""What one answer believes: the pool's knowledge, bent by what the answer itself has shown. It decides nothing."""

from orchestrator.acceptance import Acceptance, through
from orchestrator.copies import CopyAcceptance, along
from orchestrator.estimates import PoolEstimates, note_acceptance
from orchestrator.options import Terms
from orchestrator.plans import Observation, Situation

_HALF_LIFE = 128.0
"""Tokens after which what an answer showed counts half."""
_LEAST_HORIZON = 32


class Beliefs:
    """Owner of one answer's acceptance, per drafter."""

    def __init__(self, pool: PoolEstimates) -> None:
        self._pool = pool
        self._model = Acceptance(_HALF_LIFE)
        self._copies = CopyAcceptance(_HALF_LIFE)

    def note(self, seen: Observation, situation: Situation) -> None:
        """A round of the answer; the pool must have heard of it."""
        note_acceptance(self._model, self._copies, seen, situation, self._pool.now)

    def chances(self, count: int) -> tuple[float, ...]:
        """Chances of ``count`` tokens of the draft model, each given those before: the answer's own record, drawn to
        the pool's."""
        now = self._pool.now
        return tuple(self._model.chances_within(self._pool.acceptance.chances(count, now), now))

    def copied(self, match: int, count: int) -> tuple[float, ...]:
        """The same of tokens copied from where ``match`` tokens are those at the end of the text."""
        now = self._pool.now
        return along(self._copies.curve(now, self._pool.copies.curve(now)), match, count)

    def terms(self, situation: Situation, emitted: int, own: bool = True) -> Terms:
        """What options are weighed by: of this answer, or of the pool's average one. An answer that has ``emitted`` so
        many tokens is expected to emit as many again."""
        pool, count = self._pool, situation.max_draft_tokens + 1
        chances = self.chances(count) if own else tuple(pool.acceptance.chances(count, pool.now))
        horizon = max(1, min(situation.remaining, max(_LEAST_HORIZON, emitted)))
        costs = pool.timings.costs(situation.sessions, pool.now)
        return Terms(pool, situation, costs, chances, through(chances), horizon)
