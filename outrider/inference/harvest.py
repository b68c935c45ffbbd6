"""One look-ahead on its way: the jobs of its branches, and what has come of them.

The engine runs the jobs like any other; the round is answered when the last branch has come to its end, or has been
given up. It does not know scheduling, nor who finds room.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from outrider.errors import Cancelled
from outrider.inference.job import Job, Outcome
from outrider.inference.program import Fork, Sprout
from outrider.inference.sessions import Ahead
from outrider.tokens import Claim


class Harvest:
    """Collects the outcomes of the branches of ``job``."""

    def __init__(self, job: Job, fork: Fork) -> None:
        self._job = job
        self._fork = fork
        self._growing = 0
        self._results: list[tuple[Sprout, Any]] = []
        self._error: Exception | None = None

    def jobs(self) -> Iterator[Job]:
        """A job for each branch, forked off the session when it is taken."""
        assert self._job.session is not None
        for sprout in self._fork.branches:
            branch = self._job.session.fork(sprout.length)
            branch.ahead = Ahead(sprout.length + 1, sprout.program)
            branch.stream, branch.busy = self._job.stream, True
            claim = Claim(sprout.length, branch.log.digest(sprout.length), (sprout.token,))
            yield Job(
                self._job.session_id, claim, sprout.program, partial(self._note, sprout), self._job.trace,
                stream=self._job.stream, optional=True, parent=self._job, session=branch, start=sprout.length,
            )  # fmt: skip

    def expect(self, started: Sequence[Job]) -> None:
        """So many branches have found room; without any the round is over."""
        self._growing = len(started)
        if not started:
            self._deliver()

    def _note(self, sprout: Sprout, outcome: Outcome | Exception) -> None:
        """A branch has ended. One that was given up is left out; any other trouble is the round's."""
        if isinstance(outcome, Outcome):
            self._results.append((sprout, outcome.result))
        elif not isinstance(outcome, Cancelled):
            self._error = outcome
        self._growing -= 1
        if self._growing == 0:
            self._deliver()

    def _deliver(self) -> None:
        job = self._job
        job.deliver(self._error or Outcome(tuple(self._results), self._fork.keep, job.timings()))
