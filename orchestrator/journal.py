"""The journal: answers in the making and kept sessions, written where another orchestrator can read them.

Tokens are written in batches by a task of its own; nothing ever waits for a write. What cannot be written now is
written later, and while it cannot, whoever asks is told. A few tokens may be missing at the end of what is journalled:
they are computed again, and are the same. It does not know rounds, messages or pools.
"""

import asyncio
import logging
import secrets
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import DecodeError

from orchestrator.entry import Entry
from orchestrator.history import History
from orchestrator.journal_messages import read_answer, read_history, read_tokens, write_history
from orchestrator.journal_store import MISSING, TAKEN, JournalStore, Key
from outrider.errors import Unavailable
from outrider.v1.orchestrator_pb2 import GenerateRequest

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
    """An answer that somebody began: how it was asked for, the session before it, the fingerprint of the weights that
    make it, and its tokens as far as known."""

    head: bytes
    request: GenerateRequest
    history: History
    weights: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A session between two turns, if it is kept; ``answering``: another orchestrator makes its next one."""

    history: History | None
    answering: bool


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

    @property
    def state(self) -> JournalState:
        """As the last question to it went."""
        if self._store is None:
            return JournalState.ABSENT
        return JournalState.UNAVAILABLE if self._away else JournalState.READY

    def begin(self, key: Key, head: bytes, given: Sequence[int] = ()) -> Entry:
        """An answer begins, or goes on after the ``given`` tokens; whoever made it so far is to stop."""
        entry = Entry(key, secrets.token_hex(8), head, list(given))
        if self._store is not None:
            if (former := self._running.get(key)) is not None:
                former.superseded = True
            self._entries[entry.owner] = self._running[key] = entry
        return entry

    def end(self, entry: Entry, history: History | None, drop: bool) -> None:
        """An answer is over, for now or for good. ``history``: its session is kept like this; ``drop``: it is not kept
        any more."""
        entry.over(write_history(history) if history is not None else None, drop)
        if self._running.get(entry.key) is entry:
            del self._running[entry.key]
        if len(self._entries) > _MOST_UNWRITTEN:
            done = next((each.owner for each in self._entries.values() if each.ended), None)
            self._entries.pop(done or "", None)

    async def lost(self, key: Key) -> Lost | None:
        """An answer that can be gone on with. Raises Unavailable."""
        found = await self._require().find(key)
        if found.head is None:
            return None
        try:
            request, history, weights = read_answer(found.head)
            return Lost(found.head, request, history, weights, read_tokens(found.chunks or {}))
        except _NONSENSE as error:
            log.warning("the journal has nonsense for the answer of session %s: %s", key[1], error)
            return None

    async def session(self, key: Key) -> Kept:
        """A session that waits for its next turn. Raises Unavailable."""
        if self._store is None:
            return Kept(None, False)
        found = await self._store.find(key)
        try:
            history = read_history(found.history) if found.history is not None else None
        except _NONSENSE as error:
            log.warning("the journal has nonsense for session %s: %s", key[1], error)
            history = None
        return Kept(history, found.alive and found.owner not in self._entries)

    def _require(self) -> JournalStore:
        if self._store is None:
            raise Unavailable("this orchestrator keeps no journal")
        return self._store

    async def follow(self) -> None:
        """Write for ever."""
        while True:
            await asyncio.sleep(_AGAIN_S if self._away else _EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Write what there is to write. What cannot be written stays."""
        if self._store is None:
            return
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
        for entry in [entry for entry in self._entries.values() if not entry.begun]:
            await self._begin(store, entry)
        due = [entry for entry in self._entries.values() if entry.due]
        writes = [entry.write() for entry in due]
        for entry, write, result in zip(due, writes, await store.write(writes, self._resume_s), strict=True):
            entry.wrote(write, result)
            if result == TAKEN:
                self._entries.pop(entry.owner, None)
            elif result == MISSING and not entry.ended:
                await self._begin(store, entry)
        for entry in [entry for entry in self._entries.values() if entry.ended and entry.begun]:
            await store.end(entry.key, entry.owner, entry.history, entry.drop, self._session_s)
            self._entries.pop(entry.owner, None)

    async def _begin(self, store: JournalStore, entry: Entry) -> None:
        tokens = list(entry.tokens)
        result = await store.begin(entry.key, entry.owner, entry.head, entry.packed(), self._resume_s, entry.begun)
        entry.began(len(tokens), result)
        if result == TAKEN:
            self._entries.pop(entry.owner, None)

    async def close(self) -> None:
        """Write what there is and let go of the store."""
        if self._store is not None:
            await self.flush()
            await self._store.close()
