"""Conversations that are kept between turns: their tokens, their messages, what the replicas have cached.

One owner of the table, one answer at a time per conversation. It does not know models or streams.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.caches import CacheView
from orchestrator.history import History
from orchestrator.place import Place
from outrider.errors import NotFound, SessionBusy
from outrider.tokenizer import Message
from outrider.tokens import TokenLog


@dataclass(slots=True)
class Conversation:
    """``messages`` is None unless the conversation began as a chat. Only its tenant can go on with it. ``turns`` are
    complete. ``cache_id``: what replicas know it by; ``owner``: what the journal knows its last answer by."""

    session_id: str
    tenant: str = ""
    log: TokenLog = field(default_factory=TokenLog)
    messages: list[Message] | None = None
    draft_view: CacheView = field(default_factory=CacheView)
    target_view: CacheView = field(default_factory=CacheView)
    draft_place: Place = field(default_factory=Place)
    target_place: Place = field(default_factory=Place)
    busy: bool = False
    last_used: float = 0.0
    turns: int = 0
    owner: str = ""
    cache_id: str = ""

    def __post_init__(self) -> None:
        self.cache_id = self.cache_id or self.session_id

    @property
    def key(self) -> tuple[str, str]:
        """What it is kept under."""
        return self.tenant, self.session_id

    def set_prompt(self, tokens: list[int]) -> None:
        """Make ``tokens`` the history; what the caches share with it stays useful."""
        shared = self.log.common_prefix(tokens)
        self.log.truncate(shared)
        self.log.extend(tokens[shared:])
        self.draft_view.length = min(self.draft_view.length, shared)
        self.target_view.length = min(self.target_view.length, shared)

    def history(self, fingerprint: str) -> History:
        """What another orchestrator needs to go on with it."""
        return History(tuple(self.log.tokens), self.messages, self.turns, fingerprint)

    def catch_up(self, history: History) -> None:
        """Become what it was made elsewhere."""
        self.set_prompt(list(history.tokens))
        self.messages = None if history.messages is None else list(history.messages)
        self.turns = history.turns


def _own(session_id: str) -> str:
    """An id for caches that no other orchestrator uses: who lets go of his copy of a session frees his caches only."""
    return f"{session_id}.{secrets.token_hex(4)}"


class Conversations:
    """Kept conversations by tenant and id, least recently used first. ``on_drop`` is told of each that goes."""

    def __init__(self, ttl_s: float, most: int, on_drop: Callable[[Conversation], None]) -> None:
        self._ttl_s = ttl_s
        self._most = most
        self._on_drop = on_drop
        self._kept: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, session_id: str, tenant: str = "", elsewhere: History | None = None) -> Conversation:
        """The conversation to continue, or a new one for an empty id; busy until ``end``. ``elsewhere``: as another
        orchestrator left it, which counts when it had more turns there.

        Raises NotFound for an unknown id, another tenant's included, and SessionBusy while another answer
        runs.
        """
        self.expire()
        if not session_id:
            return Conversation(secrets.token_hex(16), tenant, busy=True)
        conversation = self._kept.get((tenant, session_id))
        if conversation is None and elsewhere is not None:
            conversation = self._kept[tenant, session_id] = Conversation(session_id, tenant, cache_id=_own(session_id))
        if conversation is None:
            raise NotFound("session_id", "unknown or expired session; leave it empty to start a new one")
        if conversation.busy:
            raise SessionBusy(f"session {session_id} is answering another request")
        if elsewhere is not None and elsewhere.turns > conversation.turns:
            conversation.catch_up(elsewhere)
        conversation.busy = True
        return conversation

    def turns(self, session_id: str, tenant: str) -> int:
        """Complete turns of a session that is kept here, else 0."""
        self.expire()
        kept = self._kept.get((tenant, session_id))
        return kept.turns if kept is not None else 0

    @staticmethod
    def again(session_id: str, tenant: str, history: History) -> Conversation:
        """A conversation of its own for an answer that is only told again: what is kept stays as it is."""
        conversation = Conversation(session_id, tenant, cache_id=_own(session_id), busy=True)
        conversation.catch_up(history)
        return conversation

    def resume(self, session_id: str, tenant: str, history: History) -> Conversation:
        """A conversation whose answer was lost, as it was before that; busy until ``end``. One of the same id that is
        here is of no use any more, even while it is busy: replicas may still be busy with it, so this one has caches
        of its own."""
        conversation = Conversation(session_id, tenant, cache_id=_own(session_id), busy=True)
        conversation.catch_up(history)
        former = self._kept.pop(conversation.key, None)
        if former is not None and not former.busy:
            self._on_drop(former)
        self._kept[conversation.key] = conversation
        return conversation

    def end(self, conversation: Conversation, keep: bool) -> None:
        """The answer is over; keep the conversation for another turn or drop it."""
        conversation.busy = False
        conversation.last_used = time.monotonic()
        replaced = self._kept.get(conversation.key, conversation) is not conversation
        if replaced or not keep:
            if not replaced:
                self._kept.pop(conversation.key, None)
            self._on_drop(conversation)
            return
        self._kept[conversation.key] = conversation
        self._kept.move_to_end(conversation.key)
        self._cut()

    def _cut(self) -> None:
        idle = (c for c in list(self._kept.values()) if not c.busy)
        while len(self._kept) > self._most and (oldest := next(idle, None)):
            self._drop(oldest)

    def expire(self) -> None:
        """Drop what nobody continued in time."""
        now = time.monotonic()
        old = [c for c in self._kept.values() if not c.busy and now - c.last_used >= self._ttl_s]
        for conversation in old:
            self._drop(conversation)

    def _drop(self, conversation: Conversation) -> None:
        del self._kept[conversation.key]
        self._on_drop(conversation)
