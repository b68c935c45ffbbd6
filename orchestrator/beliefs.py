"""What one answer believes: the pool's knowledge, bent by what the answer itself has shown. It decides nothing."""

from orchestrator.acceptance import Acceptance, through
from orchestrator.estimates import PoolEstimates, Source, source_of
from orchestrator.options import Terms
from orchestrator.plans import Drafter, Observation, Situation

_HALF_LIFE = 128.0
"""Tokens after which what an answer showed counts half."""
_LEAST_HORIZON = 32


class Beliefs:
    """Owner of one answer's acceptance, per drafter."""

    def __init__(self, pool: PoolEstimates) -> None:
        self._pool = pool
        self._own: dict[Source, Acceptance] = {}

    def _record(self, source: Source) -> Acceptance:
        return self._own.setdefault(source, Acceptance(_HALF_LIFE))

    def note(self, seen: Observation, situation: Situation) -> None:
        """A round of the answer; the pool must have heard of it."""
        if seen.proposed:
            source = source_of(seen.plan.drafter, situation.ngram_match)
            self._record(source).note(seen.proposed, seen.accepted, self._pool.now)

    def chances(self, source: Source, count: int) -> tuple[float, ...]:
        """Chances of ``count`` draft tokens, each given those before: the answer's own record, drawn to the pool's."""
        now = self._pool.now
        pool = self._pool.acceptance(source).chances(count, now)
        return tuple(self._record(source).chances_within(pool, now))

    def terms(self, situation: Situation, emitted: int, own: bool = True) -> Terms:
        """What options are weighed by: of this answer, or of the pool's average one. An answer that has ``emitted`` so
        many tokens is expected to emit as many again."""
        pool, model, count = self._pool, source_of(Drafter.MODEL, 0), situation.max_draft_tokens + 1
        chances = self.chances(model, count) if own else tuple(pool.acceptance(model).chances(count, pool.now))
        horizon = max(1, min(situation.remaining, max(_LEAST_HORIZON, emitted)))
        costs = pool.timings.costs(situation.sessions, pool.now)
        return Terms(pool, situation, costs, chances, through(chances), horizon)
