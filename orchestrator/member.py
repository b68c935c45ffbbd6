"""One replica of a pool: whether it fits, whether it answers, and who has a stream to it.

A member that fails is left alone for a while (back-off) and then asked again; one in use is asked now and then, so
that a replica that hangs is known before a round waits for it. It does not know rounds, nor the other members.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import grpc

from orchestrator.line import Line
from orchestrator.patience import Patience
from outrider.credentials import PLAIN, Dialer
from outrider.errors import DeadlineExceeded, OutriderError, ResourceExhausted
from outrider.tasks import end
from outrider.wire import ReplicaFacts

log = logging.getLogger(__name__)
_LOOK_S = 0.25
_HUNG_MS = 20_000
"""A pass that takes longer does not end."""
_SILENT = 2
"""Questions in a row without an answer in time, after which streams are given up: one alone may be a busy moment."""


class State(Enum):
    """Whether a member is used."""

    READY = "ready"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"


class Abandonable(Protocol):
    """A session's stream to a member."""

    def abandon(self, reason: str) -> None:
        """Whoever waits for an answer gets Unavailable."""


def _nothing() -> None:
    """Nobody wants to know."""


@dataclass(slots=True, eq=False)
class Member:
    """One replica at one address. Owner of its channel and its state; ``changed`` hears of its state.

    ``term`` counts the times that it came into use: what went wrong in a former one says nothing of this one.
    When nobody has named it for ``grace_s`` it is leaving: it gets no new sessions while there is another.
    """

    address: str
    ask: Callable[[grpc.aio.Channel], Awaitable[ReplicaFacts]]
    judge: Callable[[ReplicaFacts], str]
    line: Line | None = None
    facts: ReplicaFacts | None = None
    state: State = State.UNAVAILABLE
    reason: str = "not asked yet"
    patience: Patience = field(default_factory=Patience)
    changed: Callable[[], None] = _nothing
    grace_s: float = 0.0
    dialer: Dialer = PLAIN
    unnamed_since: float = math.inf
    streams: set[Abandonable] = field(default_factory=set)
    term: int = 0
    _silent: int = 0
    _watching: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Create the channel and begin to ask."""
        self.line = Line(self.address, self.dialer)
        self._watching = asyncio.create_task(self._watch(), name=f"watch {self.address}")

    @property
    def channel(self) -> grpc.aio.Channel:
        """What new calls go over, once it is open."""
        assert self.line is not None
        return self.line.channel

    def name(self, named: bool) -> None:
        """Whether somebody names it now."""
        self.unnamed_since = math.inf if named else min(self.unnamed_since, time.monotonic())

    @property
    def leaving(self) -> bool:
        """Whether nobody has named it for long. A registry that was emptied is full again sooner."""
        return time.monotonic() - self.unnamed_since >= self.grace_s

    @property
    def gone(self) -> bool:
        """Whether it is neither named nor used."""
        return self.unnamed_since < math.inf and self.state is not State.READY and not self.streams

    @property
    def staying(self) -> bool:
        """Whether it is in use and named."""
        return self.state is State.READY and not self.leaving

    @property
    def load(self) -> int:
        """Sessions that it is busy with: ours, or all rounds in its hands when it last said, if that is more."""
        return max(len(self.streams), self.facts.load.pending_rounds if self.facts else 0)

    def failed(self, reason: str, term: int | None = None) -> None:
        """Stop using it; each failure in a row doubles the time until it is tried again.

        Sessions that notice the same failure after the first change nothing: it is counted once. Nor does the failure
        of a stream that was opened in a former ``term``.
        """
        if self.state is not State.READY or term not in (None, self.term):
            return
        log.warning("%s is not used any more: %s", self.address, reason)
        self._back_off(reason)

    def _back_off(self, reason: str) -> None:
        self.patience.failed()
        self._set(State.UNAVAILABLE, reason)

    def _set(self, state: State, reason: str) -> None:
        if (state, reason) != (self.state, self.reason) and state is not State.READY:
            log.info("%s is %s: %s", self.address, state.value, reason)
        self.state, self.reason = state, reason
        self.changed()

    async def _watch(self) -> None:
        while True:
            if self.line is not None:
                await self.line.keep(self.streams)
            if self.patience.due:
                await self.handshake()
            await asyncio.sleep(_LOOK_S)

    async def handshake(self) -> None:
        """Ask what it is, and use it when it fits."""
        asks_at = self.patience.asks_at
        try:
            facts = await self.ask(self.channel)
            mismatch = self.judge(facts)
        except Exception as error:  # whatever a peer answers, the watch must live
            self._no_answer(error)
            return
        self._silent = 0
        if facts.load.pass_ms >= _HUNG_MS:
            self._hangs(f"its engine hangs: a pass has taken {facts.load.pass_ms / 1000:.0f} s")
        elif self.patience.asks_at == asks_at:  # it failed a session since it was asked: that is news, this is not
            self._answered(facts, mismatch)

    def _no_answer(self, error: Exception) -> None:
        """Streams to one that does not answer in time are given up. One that cannot be reached may be draining: it
        refuses what is new and ends what it has. One that is full to the last call is well while some are ours."""
        if self.state is State.READY and isinstance(error, ResourceExhausted) and self.streams:
            self.patience.answered(fits=True)
            return
        if not isinstance(error, OutriderError):
            log.error("the handshake with %s failed in a way nobody foresaw", self.address, exc_info=error)
        self._back_off(str(error))
        self._silent = self._silent + 1 if isinstance(error, DeadlineExceeded) else 0
        if self._silent >= _SILENT:
            self._give_up(str(error))

    def _hangs(self, reason: str) -> None:
        self._back_off(reason)
        self._give_up(reason)

    def _answered(self, facts: ReplicaFacts, mismatch: str) -> None:
        self.facts = facts
        self.patience.answered(fits=not mismatch)
        if mismatch:
            if self.state is not State.REFUSED:
                log.error("%s is refused: %s", self.address, mismatch)
            self._set(State.REFUSED, mismatch)
            return
        if self.state is not State.READY:
            log.info("%s is ready: %s, %s", self.address, facts.model_id, facts.numerics.dtype)
            self.term += 1
            self._set(State.READY, "")

    def _give_up(self, reason: str) -> None:
        for stream in list(self.streams):
            stream.abandon(reason)

    async def close(self) -> None:
        """Ask no more, give up its streams and close the channel."""
        await end(self._watching)
        self._give_up("the replica has left the pool")
        if self.line is not None:
            await self.line.close()
