"""The numbers of one replica: its passes, how long rounds waited for them, what became of rounds, and its cache.

It knows what is counted, not which of the two services it is.
"""

from outrider import semconv
from outrider.inference.engine import Engine
from outrider.inference.job import Outcome
from outrider.inference.passes import PassRecord
from outrider.instruments import Counter, Histogram, Instrument, Reading
from outrider.tokens import CacheMiss


class ReplicaMeters:
    """Owner of the counts. ``passed`` is called on the engine's thread, ``answered`` on the event loop."""

    def __init__(self) -> None:
        self.pass_s = Histogram(semconv.M_PASS)
        self.rows = Histogram(semconv.M_ROWS)
        self.queue_s = Histogram(semconv.M_ROUND_QUEUE)
        self.busy_s = Counter(semconv.M_BUSY)
        self.served = Counter(semconv.M_SERVED)
        self.missed = Counter(semconv.M_MISSED)

    def passed(self, record: PassRecord) -> None:
        """A forward pass is over."""
        seconds = (record.end_ns - record.start_ns) / 1e9
        self.pass_s.record(seconds)
        self.rows.record(record.rows)
        self.busy_s.add(seconds)
        for waited_s in record.waits:
            self.queue_s.record(waited_s)

    def answered(self, outcome: Outcome) -> None:
        """A round has its answer."""
        if isinstance(outcome.result, CacheMiss):
            self.missed.add(1, "shorter" if outcome.result.cached_len else "empty")
        else:
            self.served.add(1)

    def instruments(self, engine: Engine) -> list[Instrument]:
        """All that can be exported, of the engine's own numbers too."""
        load, pool = engine.load, engine.pool
        return [
            self.pass_s, self.rows, self.queue_s, self.busy_s, self.served, self.missed,
            Reading(semconv.M_PENDING, lambda: {(): load().pending_rounds}),
            Reading(semconv.M_HELD, lambda: {(): load().sessions}),
            Reading(semconv.M_BLOCKS, lambda: {("used",): pool.total - pool.free, ("free",): pool.free}),
            Reading(semconv.M_KV, lambda: {(): (pool.total - pool.free) / pool.total}),
            Reading(semconv.M_EVICTIONS, lambda: {(): engine.sessions.evictions}),
            Reading(semconv.M_LOOKED_UP, lambda: {(): load().prefix_cache_queries}),
            Reading(semconv.M_FOUND, lambda: {(): load().prefix_cache_hits}),
        ]  # fmt: skip
