"""One answer, from whoever can give it: asked for, and when its stream is lost gone on with elsewhere.

There are three ways to ask. The request itself always carries a seed, so every orchestrator makes the same answer of
it and what comes again is dropped. Once a stream has begun, its rest can be had from any orchestrator with the same
journal. And where the turn of a kept session was lost before anything came of it, somebody may have taken it all the
same: it is looked for before it is asked for again, or the session would have it twice.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum

from outrider.client.addresses import Addresses
from outrider.client.delivery import Delivery
from outrider.client.events import Event, Finished, Started
from outrider.client.line import CallLost, Line
from outrider.client.messages import delta_from_pb, finished_from_pb, resume_to_pb, started_from_pb
from outrider.client.retrying import Retry, pause_s, retry_of
from outrider.client.sessions import Known, Sessions
from outrider.errors import DeadlineExceeded, InvalidArgument, OutriderError, Unavailable
from outrider.v1 import orchestrator_pb2 as pb


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds, each None for no bound: of an answer, of silence, and of failures in a row."""

    answer_s: float | None
    stall_s: float | None
    patience_s: float | None


@dataclass(frozen=True, slots=True)
class Orchestrators:
    """Who can be asked, and what is known of them."""

    lines: dict[str, Line]
    addresses: Addresses
    sessions: Sessions


class _Way(Enum):
    """The request itself; the rest of its answer; or whether somebody has taken it."""

    ASK = "ask"
    RESUME = "resume"
    FIND = "find"


class _NotTaken(Exception):
    """The answer that was found is that of the turn before."""


class Asking:
    """Owner of one answer until it is whole."""

    def __init__(self, request: pb.GenerateRequest, orchestrators: Orchestrators, times: Times) -> None:
        """``request`` has a seed. Of a session that is known it gets the number of its turn."""
        self._request = request
        self._orchestrators = orchestrators
        self._times = times
        self._began = time.monotonic()
        self._way = _Way.ASK
        before = orchestrators.sessions.of(request.session_id)
        if before.turns is not None and not request.HasField("turn"):
            request.turn = before.turns
        self._stay = before.address
        self._strangers: set[str] = set()
        self._unclear = False
        self._started: Started | None = None
        self._session_id = request.session_id
        self._delivery = Delivery()
        self._tried: set[str] = set()
        self._failures = 0
        self._failing_since = 0.0
        self._telling = False
        self._losses = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        """Started, what is new, Finished. Raises OutriderError."""
        while True:
            address = self._orchestrators.addresses.choose(self._tried, self._stay)
            try:
                async with aclosing(self._attempt(address)) as events:
                    async for event in events:
                        yield event
                return
            except _NotTaken:
                self._way, self._stay = _Way.ASK, address
            except CallLost as lost:
                await self._recover(address, lost.error, lost.unclear)

    async def _attempt(self, address: str) -> AsyncGenerator[Event, None]:
        """One call, as far as it goes."""
        if self._way is _Way.ASK:
            self._delivery.again()
        else:
            self._delivery.go_on()
        self._telling = False
        line, times = self._orchestrators.lines[address], self._times
        async with aclosing(line.listen(self._message(), self._left_s(), times.stall_s)) as messages:
            async for message in messages:
                event = self._read(address, message)
                if event is not None:
                    yield event
                if isinstance(event, Finished):
                    return
        raise CallLost(Unavailable("the answer broke off without an error"), unclear=True)

    def _message(self) -> pb.GenerateRequest:
        if self._way is _Way.ASK:
            return self._request
        return resume_to_pb(self._session_id, len(self._delivery.tokens), self._request.tenant)

    def _left_s(self) -> float | None:
        """Until the answer's time is over."""
        bound = self._times.answer_s
        return None if bound is None else max(0.0, self._began + bound - time.monotonic())

    def _read(self, address: str, message: pb.GenerateResponse) -> Event | None:
        """What of a message is new. Raises OutriderError when it belongs to another answer."""
        which = message.WhichOneof("event")
        if which == "started":
            return self._begin(address, started_from_pb(message.started))
        if which == "delta":
            self._tried.clear()
            self._failures = 0
            return self._delivery.take(delta_from_pb(message.delta))
        return self._finish(address, finished_from_pb(message.finished, self._session_id, self._losses))

    def _begin(self, address: str, started: Started) -> Started | None:
        """The first time it is an event; later it must be the same answer."""
        first = self._started
        if not self._is_ours(started):
            if self._way is _Way.ASK:
                raise OutriderError("the orchestrator tells another answer than the one that was asked for")
            raise _NotTaken
        self._orchestrators.addresses.worked(address)
        self._telling = True
        self._session_id = started.session_id
        self._started = first or started
        if self._request.session_id:
            self._request.turn = started.turn
        return None if first else started

    def _is_ours(self, started: Started) -> bool:
        """The journal has one answer of a session: this one, or still the one before it."""
        same_turn = not self._request.HasField("turn") or started.turn == self._request.turn
        return same_turn and started.seed == self._request.sampling.seed

    def _finish(self, address: str, finished: Finished) -> Finished:
        self._delivery.check_complete(finished.usage.completion_tokens)
        if self._request.keep_session:
            self._orchestrators.sessions.remember(finished.session_id, Known(address, finished.turns))
        return finished

    async def _recover(self, address: str, error: OutriderError, unclear: bool) -> None:
        """Decide what comes next and wait for it. Raises the error when nothing does."""
        if self._way is not _Way.ASK and _is_unknown(error):
            self._way, self._stay = _Way.ASK, address
            return
        if self._way is _Way.ASK and self._session_is_elsewhere(address, error):
            return
        if retry_of(error) is Retry.NEVER:
            raise self._last(error) from None
        all_tried = self._note(address, retry_of(error))
        if unclear and self._started is None and self._request.session_id and not self._request.HasField("turn"):
            raise error from None  # it may have been taken, and nothing would tell it from the next one
        self._choose_way(unclear, all_tried)
        pause = self._count(error, all_tried)
        await self._sleep(pause)

    def _session_is_elsewhere(self, address: str, error: OutriderError) -> bool:
        """Whether a session that goes on may be known to another orchestrator, or has taken this turn already."""
        if not self._request.session_id or not isinstance(error, InvalidArgument):
            return False
        if error.field == "turn" and self._unclear:
            self._way, self._stay, self._unclear = _Way.FIND, address, False
            return True
        if error.field not in ("session_id", "turn"):
            return False
        self._strangers.add(address)
        self._tried, self._stay = set(self._strangers), ""
        return len(self._strangers) < len(self._orchestrators.addresses)

    def _note(self, address: str, retry: Retry) -> bool:
        """Who is not to be asked next; whether that is everybody, who then begin anew."""
        self._stay = address if retry is Retry.SOON else ""
        if retry is Retry.SOON:
            return False
        if retry is Retry.ELSEWHERE:
            self._orchestrators.addresses.failed(address)
        self._tried.add(address)
        all_tried = len(self._tried) == len(self._orchestrators.addresses)
        if all_tried:
            self._tried.clear()
        return all_tried

    def _choose_way(self, unclear: bool, all_tried: bool) -> None:
        """The rest of what has begun; where nobody can tell it, all of it again, and so on in turns."""
        if self._started is None:
            self._unclear = self._unclear or unclear
            self._way = _Way.FIND if unclear and self._request.session_id else self._way
        elif self._telling:
            self._losses += 1
            fresh = not self._delivery.tokens and not self._request.session_id
            self._way = _Way.ASK if fresh else _Way.RESUME
        elif all_tried:
            self._way = _Way.ASK if self._way is _Way.RESUME else _Way.RESUME

    def _count(self, error: OutriderError, all_tried: bool) -> float:
        """Seconds to wait after one more failure. Raises the error at the end of patience."""
        now = time.monotonic()
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        pause = pause_s(error, self._failures, all_tried, random.random())
        patience_s = self._times.patience_s
        if patience_s is not None and pause > 0 and now + pause - self._failing_since > patience_s:
            raise error from None
        return pause

    async def _sleep(self, pause: float) -> None:
        left_s = self._left_s()
        await asyncio.sleep(pause if left_s is None else min(pause, left_s))
        if left_s is not None and left_s <= pause:
            raise DeadlineExceeded(f"no whole answer within {self._times.answer_s:g} s")

    def _last(self, error: OutriderError) -> OutriderError:
        """Of an answer that had begun, that a request is refused says that it is lost."""
        if self._started is None or not _is_unknown(error):
            return error
        return Unavailable(f"the answer was lost, and nobody can go on with it: {error.message}")


def _is_unknown(error: OutriderError) -> bool:
    """Whether it says that the answer, the session or its turn is unknown there, or that no journal is kept."""
    return isinstance(error, InvalidArgument) and error.field in ("session_id", "turn", "resume_from")
