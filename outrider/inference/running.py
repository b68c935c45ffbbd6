"""The rounds in the middle of their work: from admitted to told, kept or thrown away.

A round's program says what follows from its logits: more rows, branches, or the end. It does not know passes, nor who
may start.
"""

import logging
from collections.abc import Callable, Iterator

import torch

from outrider.errors import Cancelled, OutriderError
from outrider.inference.admission import Admission
from outrider.inference.gather import Gather
from outrider.inference.harvest import Harvest
from outrider.inference.job import Job, Outcome
from outrider.inference.passes import Planned
from outrider.inference.program import Done, Fork, Resumable
from outrider.inference.sessions import Session, SessionStore

log = logging.getLogger(__name__)


class Running:
    """Owner of the jobs that hold their sessions and blocks. Those that are optional come last."""

    def __init__(
        self, sessions: SessionStore, admission: Admission, gather: Gather, clock: Callable[[], float]
    ) -> None:
        self.jobs: list[Job] = []
        self._sessions = sessions
        self._admission = admission
        self._gather = gather
        self._clock = clock

    def of(self, session: Session) -> Iterator[Job]:
        """Jobs of a session itself, not of its branches."""
        return (job for job in self.jobs if job.session is session)

    def begin(self, job: Job) -> None:
        """A job was admitted: its rows wait for a pass, unless what it asks for was prepared."""
        job.pending = job.rows()
        job.wanted = len(job.program.tail) + 1
        self.jobs.append(job)
        self.jobs.sort(key=lambda job: job.optional)
        if job.known and isinstance(job.program, Resumable):
            done = job.program.resume(job.known, job.claim.end)
            if done is not None:
                self._complete(job, done)

    def drop_abandoned(self) -> None:
        """What a run has told of stays cached: its answer may have ended there. So does what was prepared. Otherwise
        half a round is worth nothing."""
        for job in [job for job in self.jobs if job.abandoned]:
            assert job.session is not None
            self._finish(job, keep=len(job.session.log) if job.stays else None)
            job.deliver(Cancelled("the round was cancelled"))

    def branch_out(self) -> None:
        """Begin the branches for which there is room, where a look-ahead has come that far."""
        for job in list(self.jobs):
            if job.fork is not None:
                self._branch_out(job, job.fork)

    def _branch_out(self, job: Job, fork: Fork) -> None:
        """Leave the main line as it is and run the branches that find room."""
        harvest = Harvest(job, fork)
        started = self._admission.branch_out(harvest.jobs(), self._clock())
        self._finish(job, fork.keep)
        job.stream.served = True
        for branch in started:
            self.begin(branch)
        harvest.expect(started)

    def commit(self, planned: Planned, logits: torch.Tensor) -> None:
        """Note the rows of a pass as cached and let each program whose rows are all run go on."""
        offset = 0
        for job, count in planned:
            assert job.session is not None
            job.session.log.extend(job.pending[:count])
            job.session.table.advance(count)
            if job.parent is None:
                job.session.offer(min(job.session.table.length, job.claim.end))  # never what is only a guess
            del job.pending[:count]
            if not job.pending:
                rows = logits[offset : offset + job.wanted]
                offset += job.wanted
                self._advance(job, rows)

    def _advance(self, job: Job, rows: torch.Tensor) -> None:
        assert job.session is not None
        try:
            step = job.program.advance(rows, job.session.log.tokens)
        except Exception as error:
            if not isinstance(error, OutriderError):
                log.exception("a round of session %s failed", job.session_id)
            self.fail(job, error)
            return
        if isinstance(step, Done):
            self._complete(job, step)
            return
        if isinstance(step, Fork):
            job.session.truncate(step.keep)
            job.fork = step
            return
        job.pending = list(step.tokens)
        job.wanted = 1
        if step.result is not None:
            job.stream.served = True
            job.deliver(job.part(step.result, len(job.session.log)))

    def _complete(self, job: Job, done: Done) -> None:
        self._finish(job, done.keep)
        job.stream.served = True
        if not job.optional:
            self._gather.left(job.session_id, job.stream, self._clock())
        job.deliver(Outcome(done.result, done.keep, job.timings()))

    def fail(self, job: Job, error: Exception) -> None:
        """End a job whose cache cannot be trusted any more."""
        self._finish(job, keep=None)
        job.deliver(error)

    def _finish(self, job: Job, keep: int | None) -> None:
        """Take a job out; ``keep`` cuts its session's cache, None forgets the session."""
        self.jobs.remove(job)
        session = job.session
        assert session is not None
        session.busy = False
        session.last_used = self._clock()
        unwanted = job.released or (job.cancelled and not job.stays)
        if not session.alive:
            return
        if keep is None or unwanted:
            self._sessions.discard(session)
        else:
            session.truncate(min(keep, len(session.log)))
