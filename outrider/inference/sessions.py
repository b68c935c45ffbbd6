"""The sessions of an engine: tokens, block tables, and who may be evicted (design I2: all disposable).

It knows cache blocks and time, not models. Only the engine's thread uses it.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from outrider.inference.kv_cache import BlockPool, BlockTable, check_integrity
from outrider.tokens import TokenLog


@dataclass(slots=True)
class Session:
    """Tokens whose keys and values are cached. ``busy`` while a round of it is in the engine.

    Invariant: ``len(log) == table.length`` between passes.
    """

    session_id: str
    table: BlockTable
    log: TokenLog = field(default_factory=TokenLog)
    busy: bool = False
    last_used: float = 0.0

    def truncate(self, length: int) -> None:
        """Forget everything behind ``length``."""
        self.log.truncate(length)
        self.table.truncate(length)


class SessionStore:
    """Sessions in order of last use."""

    def __init__(self, pool: BlockPool, block_size: int, ttl_s: float) -> None:
        self.pool = pool
        self.evictions = 0
        self._block_size = block_size
        self._ttl_s = ttl_s
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: str) -> Session | None:
        """The session, or None."""
        return self._sessions.get(session_id)

    def obtain(self, session_id: str, now: float) -> Session:
        """The session, new when unknown, marked as used now."""
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = Session(session_id, BlockTable(self.pool, self._block_size))
        session.last_used = now
        self._sessions.move_to_end(session_id)
        return session

    def drop(self, session_id: str) -> bool:
        """Forget a session and free its blocks. False when it is unknown."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return False
        session.table.free()
        return True

    def expire(self, now: float) -> None:
        """Drop idle sessions that nobody used for the time to live."""
        old = [s.session_id for s in self if not s.busy and now - s.last_used >= self._ttl_s]
        for session_id in old:
            self.drop(session_id)

    def make_room(self, blocks: int) -> bool:
        """Evict idle sessions, least recently used first, until ``blocks`` are free.

        False when they cannot be; then nobody is evicted for nothing.
        """
        idle = [s.session_id for s in self if not s.busy and s.table.blocks]
        if self.pool.free + sum(len(self._sessions[name].table.blocks) for name in idle) < blocks:
            return False
        while self.pool.free < blocks and idle:
            self.drop(idle.pop(0))
            self.evictions += 1
        return self.pool.free >= blocks

    def check_integrity(self) -> None:
        """Raise AssertionError unless blocks and lengths add up."""
        check_integrity(self.pool, (s.table for s in self))
        for session in self:
            if len(session.log) != session.table.length:
                raise AssertionError(
                    f"session {session.session_id}: {len(session.log)} tokens, {session.table.length} cached"
                )
