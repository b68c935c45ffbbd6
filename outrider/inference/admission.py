"""Which rounds may start: memory for the whole round, or a place in the queue, or a refusal at the door.

It owns the waiting jobs and decides who gives up blocks for whom. It runs nothing: the engine does, and what is
started here has every block that its round can need, so a round in the engine never waits for memory.

Order. Rounds of running sessions come before those of new ones, and the session that began to be served first
comes first; new ones come as they arrived. As soon as one has to wait for memory, nobody behind it may start.

Who gives up blocks. First the branches of look-aheads: nobody has to come back for them. Then sessions that no open
stream uses, least recently used first (a stream that has sent no round for ``STALLED_S`` does not count as open: its
client reads slowly). Then, and only for a running session, the
younger running ones that have no round in the engine, the youngest first: they are told CacheMiss and come back.
So new sessions never take blocks from running ones, and leave each of them one block to grow into.

Why everything ends. A round whose session could never fit is refused at once, so any session fits when it is
alone. While the oldest running session waits, nobody else starts; the rounds in the engine end, then nothing is
in its way: the oldest always goes on, its answer ends, and the next is the oldest. So that the younger ones are
not silent until then, a round that has waited for ``queue_s`` goes to the front and may take the blocks of older
sessions too: every running session gets a round at least that often (plus the longest round in the engine), and
this costs at most one rebuild of others in that time, which is no thrashing. New sessions that have waited for
``queue_s``, or for whom the queue has no place, are refused.

Looking ahead is optional. It comes last, takes blocks that are free or belong to sessions whose stream has ended,
and where they are short it is left out, or has fewer branches; it never waits and is never in anybody's way.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from outrider.errors import InvalidArgument, OutriderError, ResourceExhausted
from outrider.inference.branches import adopt, confirmed
from outrider.inference.job import Job
from outrider.inference.sessions import Session, SessionStore

STALLED_S = 10.0
_LEAST_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """New sessions that may wait for memory, and how long in seconds."""

    max_waiting: int = 64
    queue_s: float = 30.0


class Admission:
    """The door of one engine. Only the engine's thread uses it."""

    def __init__(
        self,
        sessions: SessionStore,
        max_positions: int,
        copy_blocks: Callable[[Sequence[tuple[int, int]]], None],
        limits: AdmissionLimits,
    ) -> None:
        self.waiting: list[Job] = []
        self._sessions = sessions
        self._max_positions = max_positions
        self._capacity = sessions.pool.total * sessions.block_size
        self._copy_blocks = copy_blocks
        self._limits = limits
        self._ages = itertools.count()

    def submit(self, job: Job) -> None:
        """Put a round into the queue."""
        if job.stream.resumed and job.stream.age is None:
            job.stream.age = next(self._ages)
        self.waiting.append(job)

    def admit(self, now: float) -> list[Job]:
        """Start, answer or refuse what can be; the jobs that start hold their sessions and all their blocks."""
        self.waiting = [job for job in self.waiting if not job.cancelled]
        jobs, self.waiting = sorted(self.waiting, key=lambda job: self._place(job, now)), []
        started: list[Job] = []
        blocked = False
        for job in jobs:
            try:
                session = self._claimed(job)
                if session is None or session.busy:
                    self.waiting.extend([job] if session else [])
                elif not blocked and self._reserve(job, session, now):
                    started.append(job)
                elif job.optional:
                    job.deliver(job.left_out(len(session.log)))
                else:
                    blocked = True
                    self._wait(job, now)
            except OutriderError as error:
                job.deliver(error)
        self._refuse_overflow()
        return started

    def branch_out(self, jobs: Iterable[Job], now: float) -> list[Job]:
        """The first branches, as many as there is room for; they hold all their blocks."""
        started: list[Job] = []
        copies: list[tuple[int, int]] = []
        for job in jobs:
            assert job.session is not None
            if not self._make_room(job, job.session.table.missing(job.final_length), now):
                job.session.free()
                break
            copies += job.session.table.reserve(job.final_length)
            started.append(job)
        self._copy_blocks(copies)
        return started

    def _place(self, job: Job, now: float) -> tuple[int, float]:
        """Where a job stands in the queue: overdue, running by age, new by arrival, optional."""
        stream = job.stream
        if job.optional:
            return 3, job.created
        if stream.age is None:
            return 2, inf if stream.waiting_since is None else stream.waiting_since
        if self._overdue(job, now):
            return 0, stream.waiting_since or 0.0
        return 1, stream.age

    def _overdue(self, job: Job, now: float) -> bool:
        since = job.stream.waiting_since
        return since is not None and now - since >= self._limits.queue_s

    def _claimed(self, job: Job) -> Session | None:
        """The session that a job goes on with, or None when the job was answered: its claim does not hold."""
        self._check_size(job)
        session = self._sessions.get(job.session_id)
        if session is not None and session.busy:
            return session
        session = session or self._sessions.blank(job.session_id, job.stream.tenant)
        miss = adopt(session, job.claim, job.program.tail)
        if miss is not None:
            job.deliver(job.missed(miss))
            return None
        return session

    def _check_size(self, job: Job) -> None:
        for limit, words in ((self._max_positions, "positions of the model"), (self._capacity, "of the KV cache")):
            if job.final_length > limit:
                told = f"the session would grow to {job.final_length} tokens, more than the {limit} {words}"
                raise InvalidArgument("tokens", told)

    def _reserve(self, job: Job, session: Session, now: float) -> bool:
        """Give a job's session everything that its round can need. False changes nothing but what the claim cuts."""
        self._cut(job, session)
        unknown = job.claim.tokens[job.start - job.claim.prefix_len :]
        if job.keys is None:
            job.keys = session.keys_after(unknown)
        blocks = session.table.find(job.keys)
        session.table.adopt(blocks)
        session.busy = True
        if not self._make_room(job, session.table.missing(job.final_length), now):
            session.busy = False
            session.table.truncate(job.start)
            return False
        job.shared = session.note_shared(unknown, job.keys[: len(blocks)])
        self._copy_blocks(session.table.reserve(job.final_length))
        self._enter(job, session, now)
        return True

    def _cut(self, job: Job, session: Session) -> None:
        """Keep of a session's cache what the claim names and what its tokens confirm, but for the last row to run."""
        claim, start = job.claim, job.start
        job.known = confirmed(session, claim, job.program)
        path = (*claim.tokens, *job.known)
        cached = claim.prefix_len + session.log.common_prefix(path[:-1], claim.prefix_len)
        session.truncate(cached)
        job.start = cached
        if start != cached:
            job.keys = None  # they follow what is cached, which another round has changed meanwhile

    def _enter(self, job: Job, session: Session, now: float) -> None:
        stream = job.stream
        stream.age = next(self._ages) if stream.age is None else stream.age
        stream.waiting_since = None
        session.stream, session.ahead = stream, None
        self._sessions.touch(session, now)
        job.session = session

    def _make_room(self, job: Job, blocks: int, now: float) -> bool:
        """Make ``blocks`` free, at the cost of those who may be asked. False asks nobody."""
        if blocks == 0:
            return True
        running: list[Session] = []
        unused: list[Session] = []
        for session in self._sessions:
            (running if session.running(now - STALLED_S) else unused).append(session)
        unused = [session for session in unused if not session.busy]
        if job.optional:
            return self._sessions.make_room(blocks, [s for s in unused if s.stream is None or not s.stream.open])
        unused = [*self._sessions.branches(), *unused]
        if job.stream.new:
            return self._sessions.make_room(blocks, unused, spare=len(running))
        return self._sessions.make_room(blocks, [*unused, *self._yielding(running, job, now)])

    def _yielding(self, running: Sequence[Session], job: Job, now: float) -> list[Session]:
        """Running sessions without a round that give way to a job's, the youngest first."""
        age = -1 if self._overdue(job, now) else job.stream.age
        assert age is not None
        found = [(s.stream.age, s) for s in running if not s.busy and s.stream and s.stream.age is not None]
        return [s for other, s in sorted(found, key=lambda pair: -pair[0]) if other > age]

    def _wait(self, job: Job, now: float) -> None:
        """Keep a job for the next step, or refuse it."""
        if job.stream.waiting_since is None:
            job.stream.waiting_since = now
        if job.stream.new and self._overdue(job, now):
            raise self._refusal(job, f"waited {self._limits.queue_s:g} s for room")
        self.waiting.append(job)

    def _refuse_overflow(self) -> None:
        waiting = [job for job in self.waiting if job.stream.new and job.stream.waiting_since is not None]
        for job in waiting[self._limits.max_waiting :]:
            self.waiting.remove(job)
            job.deliver(self._refusal(job, f"{self._limits.max_waiting} sessions wait already"))

    def _refusal(self, job: Job, why: str) -> ResourceExhausted:
        words = f"no room for {job.final_length} tokens in a KV cache of {self._capacity} that others use; {why}"
        return ResourceExhausted(words, retry_after_s=max(_LEAST_RETRY_S, self._limits.queue_s / 2))
