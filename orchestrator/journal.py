"""The journal: answers in the making and kept sessions, written where another orchestrator can read them.

Tokens are written in batches by a task of its own, and no token waits for a write; only the end of a turn whose
session is kept does. What cannot be written now is written later, and while it cannot, whoever asks is told. A few
tokens may be missing at the end of what is journalled: they are computed again, and are the same. It does not know
rounds or pools.
"""

import asyncio
import contextlib
import logging
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import DecodeError

from orchestrator.entry import Entry
from orchestrator.history import History
from orchestrator.journal_messages import read_answer, read_history, read_numerics, read_tokens, write_history
from orchestrator.journal_store import TAKEN, Begin, End, JournalStore, Key, Stored
from outrider.errors import Unavailable
from outrider.v1.orchestrator_pb2 import GenerateRequest
from outrider.wire import Numerics

log = logging.getLogger(__name__)
_EVERY_S = 0.2
_AGAIN_S = 1.0
_MOST_UNWRITTEN = 4096
"""Answers that wait for a journal that is away; of more, the oldest that are over are given up."""
_NONSENSE = (DecodeError, struct.error)


class JournalState(Enum):
    """Whether it takes what it is given."""

    ABSENT = "absent"
    READY = "ready"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Lost:
    """An answer that somebody began, ``complete`` if it was told to its end: how it was asked for, the session before
    it, the fingerprint of the weights that make it, its tokens as far as known, who made it last, and with which
    numerics."""

    head: bytes
    request: GenerateRequest
    history: History
    weights: str
    tokens: tuple[int, ...]
    owner: str = ""
    complete: bool = False
    numerics: Numerics | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A session between two turns, if it is kept; ``answering``: another orchestrator makes its next one. ``owner``:
    who made, or makes, its last answer."""

    history: History | None
    answering: bool
    owner: str = ""


class Journal:
    """Owner of what is still to be written. Without a store it takes nothing and finds nothing."""

    def __init__(self, store: JournalStore | None, resume_s: float, session_s: float) -> None:
        """``resume_s``: how long an answer can be had after its last write; ``session_s``: a session after its last
        turn."""
        self._store = store
        self._resume_s = resume_s
        self._session_s = session_s
        self._entries: dict[str, Entry] = {}
        self._running: dict[Key, Entry] = {}
        self._away = False
        self._wanted = asyncio.Event()
        self._writing = asyncio.Lock()

    @property
    def state(self) -> JournalState:
        """As the last question to it went."""
        if self._store is None:
            return JournalState.ABSENT
        return JournalState.UNAVAILABLE if self._away else JournalState.READY

    def begin(self, key: Key, head: bytes, given: Sequence[int] = (), former: str = "") -> Entry:
        """An answer begins, or goes on after the ``given`` tokens; its ``former`` maker is to stop."""
        here = self._running.get(key)
        if here is not None:
            here.superseded, former = True, here.owner
        entry = Entry(key, secrets.token_hex(8), head, list(given), former)
        if self._store is not None:
            self._entries[entry.owner] = self._running[key] = entry
            self._wanted.set()
        return entry

    def end(self, entry: Entry, history: History | None, last: bool) -> None:
        """An answer is over, for now or for good. ``history``: its session is kept like this; ``last``: it is not kept
        any more."""
        turns = history.turns if history is not None else 0
        entry.over(write_history(history) if history is not None else None, turns, last)
        if self._running.get(entry.key) is entry:
            del self._running[entry.key]
        if len(self._entries) > _MOST_UNWRITTEN:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        done = next((each for each in self._entries.values() if each.ended), None)
        if done is not None:
            log.error("the journal is behind by %d answers; session %s is not kept", len(self._entries), done.key[1])
            del self._entries[done.owner]

    async def secure(self) -> None:
        """Return when all is written, or cannot be."""
        if self.state is JournalState.READY:
            await self.flush()

    async def lost(self, key: Key) -> Lost | None:
        """An answer that can be gone on with. Raises Unavailable."""
        found = await self._find(self._require(), key)
        if found.head is None:
            return None
        try:
            request, history, weights = read_answer(found.head)
            tokens, numerics = read_tokens(found.chunks or {}), read_numerics(found.numerics)
        except _NONSENSE as error:
            log.warning("the journal has nonsense for the answer of session %s: %s", key[1], error)
            return None
        return Lost(found.head, request, history, weights, tokens, found.owner, found.complete, numerics)

    async def session(self, key: Key) -> Kept:
        """A session that waits for its next turn. Raises Unavailable."""
        if self._store is None:
            return Kept(None, False)
        found = await self._find(self._store, key)
        try:
            history = read_history(found.history) if found.history is not None else None
        except _NONSENSE as error:
            log.warning("the journal has nonsense for session %s: %s", key[1], error)
            history = None
        return Kept(history, found.alive and found.owner not in self._entries, found.owner)

    async def _find(self, store: JournalStore, key: Key) -> Stored:
        """What is there of a session, after what we know of it ourselves."""
        if any(entry.key == key for entry in self._entries.values()):
            await self.flush()
        return await store.find(key)

    def _require(self) -> JournalStore:
        if self._store is None:
            raise Unavailable("this orchestrator keeps no journal")
        return self._store

    async def follow(self) -> None:
        """Write for ever: an answer that begins at once, tokens now and then."""
        while True:
            if self._away:
                await asyncio.sleep(_AGAIN_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._wanted.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write what there is to write. What cannot be written stays."""
        if self._store is None:
            return
        async with self._writing:
            self._wanted.clear()
            try:
                await self._write(self._store)
            except Unavailable as error:
                if not self._away:
                    log.warning("%s; answers go on, and cannot be resumed elsewhere until it is back", error)
                self._away = True
            except Exception:  # whatever is wrong with it, answers go on
                log.exception("the journal failed in a way nobody foresaw")
                self._away = True
            else:
                if self._away:
                    log.info("the journal is back")
                self._away = False

    async def _write(self, store: JournalStore) -> None:
        """Tokens of known answers first, then beginnings and ends, in the order in which the answers began: one that is
        over ends before the next of its session begins."""
        self._drop_pointless()
        due = [entry for entry in self._entries.values() if entry.due]
        writes = [entry.write() for entry in due]
        for entry, write, result in zip(due, writes, await store.write(writes, self._resume_s), strict=True):
            entry.wrote(write, result)
            if result == TAKEN and not entry.complete:
                self._entries.pop(entry.owner, None)
        await self._settle(store)

    def _drop_pointless(self) -> None:
        """Who would have taken an answer over from one that is not written takes it from the one before."""
        former = {entry.owner: entry.former for entry in self._entries.values() if entry.pointless}
        self._entries = {owner: entry for owner, entry in self._entries.items() if owner not in former}
        for entry in self._entries.values() if former else ():
            while entry.former in former:
                entry.former = former[entry.former]

    async def _settle(self, store: JournalStore) -> None:
        steps: list[tuple[Entry, Begin | End]] = []
        for entry in self._entries.values():
            if not entry.begun:
                steps.append((entry, entry.begin()))
            if entry.ended:
                steps.append((entry, entry.end()))
        results = await store.settle([step for _, step in steps], self._resume_s, self._session_s)
        for (entry, step), result in zip(steps, results, strict=True):
            if isinstance(step, Begin):
                entry.began(len(step.tokens) // 4, result)
            if isinstance(step, End) or (result == TAKEN and not entry.ended):
                self._entries.pop(entry.owner, None)

    async def close(self) -> None:
        """Write what there is and let go of the store."""
        if self._store is not None:
            await self.flush()
            await self._store.close()
