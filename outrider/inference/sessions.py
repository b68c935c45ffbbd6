"""The sessions of an engine: tokens, block tables, and who may be evicted (design I2: all disposable).

A session that looks ahead is a small tree: its main line and branches that share blocks with it. It knows cache
blocks and time, not models; which line goes on is decided in ``branches.py``. Only the engine's thread uses it.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from outrider.inference.kv_cache import BlockPool, BlockTable, check_integrity
from outrider.inference.prefix_cache import block_key, keys_of, root_key
from outrider.inference.program import Chooser
from outrider.inference.stream import Stream
from outrider.tokens import TokenLog


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a branch adds of its own: the choices after its first ``start`` tokens. All but the last are cached."""

    start: int
    chooser: Chooser


@dataclass(slots=True, eq=False)
class Session:
    """Tokens whose keys and values are cached. ``busy`` while a round of it is in the engine.

    ``keys`` are those of its first blocks, full and offered to others; ``root`` is the key before them.
    ``stream`` is the one that its last round came by. ``branches`` are the forks of its last look-ahead, sessions with
    this one as ``parent``; ``ahead`` says what a branch chose. ``alive`` until its cache goes to others.
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
    parent: "Session | None" = None
    branches: list["Session"] = field(default_factory=list)
    ahead: Ahead | None = None
    alive: bool = True

    @property
    def last_key(self) -> bytes:
        """Key of the last offered block, or the root."""
        return self.keys[-1] if self.keys else self.root

    def truncate(self, length: int) -> None:
        """Forget everything behind ``length``."""
        self.log.truncate(length)
        self.table.truncate(length)
        del self.keys[length // self.table.block_size :]

    def fork(self, length: int) -> "Session":
        """A branch that shares the first ``length`` tokens and their blocks."""
        table = self.table.fork()
        table.truncate(length)
        keys = self.keys[: length // table.block_size]
        branch = Session(self.session_id, table, self.root, self.log.prefix(length), keys, parent=self)
        self.branches.append(branch)
        return branch

    def take_over(self, branch: "Session") -> None:
        """Go on as one of the branches, and give up what the session was."""
        self.table, branch.table = branch.table, self.table
        self.log, self.keys, self.ahead = branch.log, branch.keys, branch.ahead
        branch.free()

    def prune(self) -> None:
        """Give up the branches."""
        for branch in list(self.branches):
            branch.free()

    def free(self) -> None:
        """Give back every block, those of the branches too. The session is of no use any more."""
        self.prune()
        self.table.free()
        self.alive = False
        if self.parent is not None:
            self.parent.branches.remove(self)

    def keys_after(self, tokens: Sequence[int]) -> list[bytes]:
        """Keys of the blocks that ``tokens`` would fill and that another session may have filled already.

        Only from a block's border on, only whole blocks, and never the last token: its logits are wanted. What is
        cached before them is no guess any more, a claim goes on from it, so its blocks get their keys first.
        """
        size = self.table.block_size
        if len(self.log) % size or len(tokens) <= size:
            return []
        self.offer(len(self.log))
        return list(keys_of(self.last_key, tokens[:-1], size))

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

    def branches(self) -> list[Session]:
        """The branches of all sessions, those of the session least recently used first."""
        return [branch for session in self for branch in session.branches]

    def drop(self, session_id: str) -> bool:
        """Forget a session and free its blocks. False when it is unknown."""
        session = self._sessions.get(session_id)
        if session is None:
            return False
        self.discard(session)
        return True

    def discard(self, session: Session) -> None:
        """Free a session, or a branch alone."""
        if session.parent is None:
            self._sessions.pop(session.session_id, None)
        session.free()

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
        """Evict ``victims``, sessions or branches, in order until ``blocks`` are free.

        False when ``blocks`` and ``spare`` more could not be had; then nobody is evicted for nothing. A session takes
        its branches with it, so they must come before it to be evicted alone.
        """
        holders = [session for session in victims if session.table.blocks]
        if self.pool.free + self._freed_by(holders) < blocks + spare:
            return False
        while self.pool.free < blocks:
            victim = holders.pop(0)
            self.evictions += victim.parent is None
            self.discard(victim)
        return True

    def _freed_by(self, sessions: Sequence[Session]) -> int:
        """Blocks that nobody would hold without these sessions."""
        held = Counter(block for session in sessions for block in session.table.blocks)
        return sum(1 for block, count in held.items() if count == self.pool.holders(block))

    def check_integrity(self) -> None:
        """Raise AssertionError unless blocks and lengths add up."""
        lines = [*self, *self.branches()]
        check_integrity(self.pool, (line.table for line in lines))
        for session in lines:
            if len(session.log) != session.table.length:
                raise AssertionError(
                    f"session {session.session_id}: {len(session.log)} tokens, {session.table.length} cached"
                )
