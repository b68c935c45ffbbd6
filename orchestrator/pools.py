"""The replicas that serve, whether they fit and whether they answer: one draft and one target for now.

A member that fails is left alone for a while (back-off) and then tried again by the monitor. It does not
know sessions or rounds.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum

import grpc

from orchestrator.clients import draft_facts, release_draft, release_target, target_facts
from orchestrator.pairing import draft_mismatch, target_mismatch
from outrider.channel import CLIENT_OPTIONS
from outrider.errors import OutriderError
from outrider.tokenizer import Tokenizer
from outrider.wire import ReplicaFacts

log = logging.getLogger(__name__)
_MONITOR_S = 0.25
_BACKOFF_FIRST_S = 0.25
_BACKOFF_MOST_S = 10.0
_TARGET_BACKOFF_MOST_S = 0.5
"""Answers wait for the target and for nothing else, so it is asked again soon."""


class State(Enum):
    """Whether a member is used."""

    READY = "ready"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    ABSENT = "absent"


@dataclass(slots=True)
class Member:
    """One replica at one address. Owner of its channel, its state and its back-off."""

    address: str
    ask: Callable[[grpc.aio.Channel], Awaitable[ReplicaFacts]]
    judge: Callable[[ReplicaFacts], str]
    channel: grpc.aio.Channel | None = None
    facts: ReplicaFacts | None = None
    state: State = State.UNAVAILABLE
    reason: str = "not asked yet"
    backoff_most_s: float = _BACKOFF_MOST_S
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _backoff_s: float = 0.0
    _not_before: float = 0.0

    def open(self) -> None:
        """Create the channel; a member without an address is absent."""
        if self.address:
            self.channel = grpc.aio.insecure_channel(self.address, options=CLIENT_OPTIONS)
        else:
            self.state, self.reason = State.ABSENT, ""

    def failed(self, reason: str) -> None:
        """Stop using it; each failure in a row doubles the time until it is tried again.

        Sessions that notice the same failure after the first change nothing: it is counted once.
        """
        if self.state is not State.READY:
            return
        log.warning("%s is not used any more: %s", self.address, reason)
        self._back_off(reason)

    def _back_off(self, reason: str) -> None:
        self._backoff_s = min(self.backoff_most_s, self._backoff_s * 2 or _BACKOFF_FIRST_S)
        self._not_before = time.monotonic() + self._backoff_s
        self._set(State.UNAVAILABLE, reason)

    def succeeded(self) -> None:
        """A round was answered: forget earlier failures."""
        self._backoff_s = 0.0

    def _set(self, state: State, reason: str) -> None:
        if (state, reason) != (self.state, self.reason) and state is not State.READY:
            log.info("%s is %s: %s", self.address, state.value, reason)
        self.state, self.reason = state, reason
        if state is State.READY:
            self.ready.set()
        else:
            self.ready.clear()

    @property
    def due(self) -> bool:
        """Whether the monitor should ask it again."""
        return self.state in (State.UNAVAILABLE, State.REFUSED) and time.monotonic() >= self._not_before

    async def handshake(self) -> None:
        """Ask what it is, and use it when it fits."""
        assert self.channel is not None
        try:
            facts = await self.ask(self.channel)
        except Exception as error:  # whatever a peer answers, the monitor must live
            if not isinstance(error, OutriderError):
                log.exception("the handshake with %s failed in a way nobody foresaw", self.address)
            self._back_off(str(error))
            return
        mismatch = self.judge(facts)
        self.facts = facts
        if mismatch:
            if self.state is not State.REFUSED:
                log.error("%s is refused: %s", self.address, mismatch)
            self._not_before = time.monotonic() + _BACKOFF_MOST_S
            self._set(State.REFUSED, mismatch)
            return
        self._set(State.READY, "")
        log.info("%s is ready: %s, %s", self.address, facts.model_id, facts.numerics.dtype)

    async def close(self) -> None:
        """Close the channel."""
        if self.channel is not None:
            await self.channel.close()


class Pools:
    """The draft and the target that sessions use, kept fresh by one monitor task."""

    def __init__(self, target: str, draft: str, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.target = Member(target, target_facts, self._judge_target, backoff_most_s=_TARGET_BACKOFF_MOST_S)
        self.draft = Member(draft, draft_facts, self._judge_draft)
        self._monitor: asyncio.Task[None] | None = None

    def _judge_target(self, facts: ReplicaFacts) -> str:
        return target_mismatch(facts, self._tokenizer.vocab_size, self._tokenizer.fingerprint)

    def _judge_draft(self, facts: ReplicaFacts) -> str:
        return draft_mismatch(facts, self.target.facts) if self.target.facts else "the target is not known yet"

    async def start(self) -> None:
        """Open the channels and begin to watch."""
        self.target.open()
        self.draft.open()
        self._monitor = asyncio.create_task(self._watch(), name="pool monitor")

    async def close(self) -> None:
        """Stop watching and close the channels."""
        if self._monitor is not None:
            self._monitor.cancel()
            await asyncio.gather(self._monitor, return_exceptions=True)
        await self.target.close()
        await self.draft.close()

    async def _watch(self) -> None:
        while True:
            if self.target.due:
                await self.target.handshake()
            if self.target.facts is not None and self.draft.due:
                await self.draft.handshake()
            await asyncio.sleep(_MONITOR_S)

    async def release(self, session_id: str, tenant: str) -> None:
        """Free a session's caches on both sides; a replica that is away has lost them anyway."""
        for member, release in ((self.target, release_target), (self.draft, release_draft)):
            if member.state is State.READY and member.channel is not None:
                try:
                    await release(member.channel, session_id, tenant)
                except OutriderError as error:
                    log.debug("release of %s at %s: %s", session_id, member.address, error)
