"""The sessions of an engine: tokens, block tables, and who may be evicted (design I2: all disposable).

It knows cache blocks and time, not models. Only the engine's thread uses it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from outrider.inference.kv_cache import BlockPool, BlockTable, check_integrity
from outrider.inference.prefix_cache import block_key, keys_of, root_key
from outrider.inference.stream import Stream
from outrider.tokens import TokenLog


@dataclass(slots=True, eq=False)
class Session:
    """Tokens whose keys and values are cached. ``busy`` while a round of it is in the engine.

    ``keys`` are those of its first blocks, full and offered to others; ``root`` is the key before them.
    ``stream`` is the one that its last round came by.
    Invariant: ``len(log) == table.length`` between passes.
    """

    session_id: str
    table: BlockTable
    root: bytes
    log: TokenLog = field(default_factory=TokenLog)
    keys: list[bytes] = field(default_factory=list)
    stream: Stream | None = None
    busy: bool = False
    last_used: float = 0.0

    @property
    def last_key(self) -> bytes:
        """Key of the last offered block, or the root."""
        return self.keys[-1] if self.keys else self.root

    def truncate(self, length: int) -> None:
        """Forget everything behind ``length``."""
        self.log.truncate(length)
        self.table.truncate(length)
        del self.keys[length // self.table.block_size :]

    def keys_after(self, tokens: Sequence[int]) -> list[bytes]:
        """Keys of the blocks that ``tokens`` would fill and that another session may have filled already.

        Only from a block's border on, only whole blocks, and never the last token: its logits are wanted.
        """
        size = self.table.block_size
        return [] if len(self.log) % size else list(keys_of(self.last_key, tokens[:-1], size))

    def note_shared(self, tokens: Sequence[int], keys: Sequence[bytes]) -> int:
        """The table has adopted blocks of these keys, which hold the first of ``tokens``; returns how many."""
        count = len(keys) * self.table.block_size
        self.log.extend(tokens[:count])
        self.keys.extend(keys)
        return count

    def running(self, since: float) -> bool:
        """Whether an answer is being made: its stream is open and its last round ended after ``since``."""
        return self.stream is not None and self.stream.open and (self.busy or self.last_used > since)

    def offer(self, length: int) -> None:
        """Let others find the full blocks of the first ``length`` tokens."""
        size = self.table.block_size
        for index in range(len(self.keys), length // size):
            key = block_key(self.last_key, self.log.tokens[index * size : (index + 1) * size])
            self.table.register(index, key)
            self.keys.append(key)


class SessionStore:
    """Sessions in order of last use."""

    def __init__(self, pool: BlockPool, block_size: int, ttl_s: float) -> None:
        self.pool = pool
        self.evictions = 0
        self.block_size = block_size
        self._ttl_s = ttl_s
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: str) -> Session | None:
        """The session, or None."""
        return self._sessions.get(session_id)

    def blank(self, session_id: str, tenant: str = "") -> Session:
        """A session that holds nothing; it is remembered when it is first touched."""
        return Session(session_id, BlockTable(self.pool, self.block_size), root_key(tenant))

    def touch(self, session: Session, now: float) -> None:
        """Remember a session as used now."""
        session.last_used = now
        self._sessions[session.session_id] = session
        self._sessions.move_to_end(session.session_id)

    def served(self, since: float) -> set[str]:
        """Sessions in the middle of an answer: running, with a round behind them."""
        return {s.session_id for s in self if s.running(since) and s.stream is not None and s.stream.served}

    def drop(self, session_id: str) -> bool:
        """Forget a session and free its blocks. False when it is unknown."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return False
        session.table.free()
        return True

    def forget_all(self) -> bool:
        """Drop every session and shared prefix, for contents that became void. False while answers are being made."""
        if any(session.stream is not None and session.stream.open for session in self):
            return False
        for session_id in list(self._sessions):
            self.drop(session_id)
        self.pool.forget_prefixes()
        return True

    def expire(self, now: float) -> None:
        """Drop idle sessions that nobody used for the time to live."""
        old = [s.session_id for s in self if not s.busy and now - s.last_used >= self._ttl_s]
        for session_id in old:
            self.drop(session_id)

    def make_room(self, blocks: int, victims: Sequence[Session], spare: int = 0) -> bool:
        """Evict ``victims`` in order until ``blocks`` are free.

        False when ``blocks`` and ``spare`` more could not be had; then nobody is evicted for nothing.
        """
        holders = [session for session in victims if session.table.blocks]
        if self.pool.free + self._freed_by(holders) < blocks + spare:
            return False
        while self.pool.free < blocks:
            self.drop(holders.pop(0).session_id)
            self.evictions += 1
        return True

    def _freed_by(self, sessions: Sequence[Session]) -> int:
        """Blocks that nobody would hold without these sessions."""
        held = Counter(block for session in sessions for block in session.table.blocks)
        return sum(1 for block, count in held.items() if count == self.pool.holders(block))

    def check_integrity(self) -> None:
        """Raise AssertionError unless blocks and lengths add up."""
        check_integrity(self.pool, (s.table for s in self))
        for session in self:
            if len(session.log) != session.table.length:
                raise AssertionError(
                    f"session {session.session_id}: {len(session.log)} tokens, {session.table.length} cached"
                )
