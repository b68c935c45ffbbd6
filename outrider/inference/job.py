"""One round on its way through the engine: its tokens still to run, its program, its clock.

It does not know scheduling; the engine moves it from waiting to running to finished.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from outrider.inference.program import Fork, Program
from outrider.inference.schedule import Shape
from outrider.inference.sessions import Session
from outrider.inference.stream import Stream
from outrider.round_timings import RoundTimings
from outrider.tokens import CacheMiss, Claim


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: a result of the program or a CacheMiss, and the session's cached length. Others follow
    unless it is the ``last``."""

    result: Any
    cached_len: int
    timings: RoundTimings
    last: bool = True


@dataclass(slots=True, eq=False)
class Job:
    """``deliver`` is called on the engine's thread with each Outcome, or with an exception; nothing follows that.

    ``trace`` is whom a pass names that serves it; ``next_trace`` gives another for each further round of a run, on the
    engine's thread. ``session_id`` names the session within the engine. A job that comes without a stream is an
    answer of its own. ``keys`` are those of the blocks that others may have filled with its claimed tokens, and
    ``shared`` counts the claimed tokens that a shared prefix spared it. ``cancelled``: nobody waits for the rest;
    ``released``: its session is to go with it. ``optional``: it takes nobody's blocks, waits for none, and yields to
    every other job; ``fork`` is what it goes on with, ``parent`` the look-ahead that it is a branch of. It runs from
    the position ``start`` on, where ``known`` follows the claimed tokens: what an adopted branch has chosen already.
    """

    session_id: str
    claim: Claim
    program: Program
    deliver: Callable[["Outcome | Exception"], None]
    trace: Any = None
    stream: Stream = field(default_factory=lambda: Stream(open=False))
    cancelled: bool = False
    released: bool = False
    partial: bool = False
    optional: bool = False
    parent: "Job | None" = None
    session: Session | None = None
    start: int = 0
    known: tuple[int, ...] = ()
    fork: Fork | None = None
    keys: list[bytes] | None = None
    shared: int = 0
    pending: list[int] = field(default_factory=list)
    wanted: int = 1
    created: float = field(default_factory=time.perf_counter)
    queue_s: float | None = None
    forward_s: float = 0.0
    passes: int = 0
    batch_rows: int = 0
    next_trace: Callable[[], Any] | None = None

    @property
    def final_length(self) -> int:
        """Longest that the session can become in this round."""
        return self.claim.end + len(self.program.tail) + self.program.growth

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for it, or its cache has gone to others."""
        parent = self.parent is not None and self.parent.cancelled
        return self.cancelled or parent or (self.session is not None and not self.session.alive)

    @property
    def stays(self) -> bool:
        """Whether what it has cached is of use although nobody waits for the rest."""
        return self.partial or self.optional

    @property
    def shape(self) -> Shape:
        """What the schedule sees of it."""
        return Shape(len(self.pending), self.wanted, self.stream.served or self.stream.resumed)

    def rows(self) -> list[int]:
        """The tokens to run."""
        path = (*self.claim.tokens, *self.known, *self.program.tail)
        return list(path[self.start + self.shared - self.claim.prefix_len :])

    def timings(self) -> RoundTimings:
        """What the clock shows."""
        waited = time.perf_counter() - self.created if self.queue_s is None else self.queue_s
        return RoundTimings(int(waited * 1e6), int(self.forward_s * 1e6), self.passes, self.batch_rows, self.shared)

    def part(self, result: Any, cached_len: int) -> Outcome:
        """An outcome that is not the last; the clock starts anew."""
        outcome = Outcome(result, cached_len, self.timings(), last=False)
        self.partial = True
        self.trace = self.next_trace() if self.next_trace is not None else self.trace
        self.queue_s, self.forward_s, self.passes, self.shared = 0.0, 0.0, 0, 0
        return outcome

    def left_out(self, cached_len: int) -> Outcome:
        """The outcome of an optional job that found no room: nothing came of it."""
        return Outcome((), cached_len, self.timings())

    def missed(self, miss: CacheMiss) -> Outcome:
        """The outcome of a claim that does not hold."""
        return Outcome(miss, miss.cached_len, self.timings())
