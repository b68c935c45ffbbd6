"""Conversations that are kept between turns: their tokens, their messages, what the replicas have cached.

One owner of the table, one answer at a time per conversation. It does not know models or streams.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.caches import CacheView
from orchestrator.place import Place
from outrider.errors import InvalidArgument, SessionBusy
from outrider.tokenizer import Message
from outrider.tokens import TokenLog


@dataclass(slots=True)
class Conversation:
    """``messages`` is None unless the conversation began as a chat. Only its tenant can go on with it."""

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


class Conversations:
    """Kept conversations by tenant and id, least recently used first. ``on_drop`` is told of each that goes."""

    def __init__(self, ttl_s: float, most: int, on_drop: Callable[[Conversation], None]) -> None:
        self._ttl_s = ttl_s
        self._most = most
        self._on_drop = on_drop
        self._kept: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, session_id: str, tenant: str = "") -> Conversation:
        """The conversation to continue, or a new one for an empty id; busy until ``end``.

        Raises InvalidArgument for an unknown id, another tenant's included, and SessionBusy while another answer
        runs.
        """
        self.expire()
        if not session_id:
            return Conversation(secrets.token_hex(16), tenant, busy=True)
        conversation = self._kept.get((tenant, session_id))
        if conversation is None:
            raise InvalidArgument("session_id", "unknown or expired session; leave it empty to start a new one")
        if conversation.busy:
            raise SessionBusy(f"session {session_id} is answering another request")
        conversation.busy = True
        return conversation

    def end(self, conversation: Conversation, keep: bool) -> None:
        """The answer is over; keep the conversation for another turn or drop it."""
        conversation.busy = False
        conversation.last_used = time.monotonic()
        if not keep:
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
