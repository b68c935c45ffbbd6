"""The journal in Redis: its keys, and what is done to them in one step each.

Names, for the default prefix ``outrider``:

- ``outrider:answer:<session>:<tenant>``: a hash of an answer in the making: ``owner``, who makes it; ``head``, a
  JournalledAnswer; ``<position>``, tokens from there on, four bytes each; ``numerics``, those of the target; ``seen``,
  Redis's time of the last write in milliseconds; ``ended``, once it is over: kept, last or broken. It expires as a
  whole, a while after its last write.
- ``outrider:session:<session>:<tenant>``: a hash of a session that waits for its next turn: ``turns``, how many are
  complete; ``history``, a JournalledHistory. It expires with the session.

Whoever writes the head is the owner; a former one is told so by its next write. To become the owner one must know the
present one: of two who take an answer over, one is told that he was too late. It does not know answers or messages.
"""

import logging
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outrider.redis_calls import answered, open_redis

log = logging.getLogger(__name__)
Key = tuple[str, str]
"""Tenant and session."""

TAKEN, WRITTEN, MISSING = 0, 1, -1
"""What becomes of a write: another one owns the answer; done; there is no such answer any more."""

_SILENT_MS = 3000
"""An owner that wrote so lately is alive."""
_AT_ONCE = 128
"""Answers per command: Redis serves nobody else meanwhile."""
_SESSION = re.compile(r"[0-9a-f]{32}")

_NOW = "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) "

_BEGIN = (
    _NOW
    + """
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[2] and owner ~= ARGV[5] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'head', ARGV[3], 'seen', now)
if #ARGV[4] > 0 then redis.call('HSET', KEYS[1], '0', ARGV[4]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""
)
_WRITE = (
    _NOW
    + """
local results = {}
for i, key in ipairs(KEYS) do
  local owner = redis.call('HGET', key, 'owner')
  local start, data, numerics = ARGV[4 * i - 1], ARGV[4 * i], ARGV[4 * i + 1]
  if not owner then results[i] = -1
  elseif owner ~= ARGV[4 * i - 2] then results[i] = 0
  else
    if #data > 0 then redis.call('HSET', key, start, data) end
    if #numerics > 0 then redis.call('HSET', key, 'numerics', numerics) end
    redis.call('HSET', key, 'seen', now)
    redis.call('PEXPIRE', key, ARGV[1])
    results[i] = 1
  end
end
return results
"""
)
_END = """
local owner = redis.call('HGET', KEYS[1], 'owner')
local mine = not owner or owner == ARGV[1]
if owner == ARGV[1] then redis.call('HSET', KEYS[1], 'ended', ARGV[2]) end
local turns = tonumber(redis.call('HGET', KEYS[2], 'turns') or '0')
if ARGV[2] == 'kept' and (mine or turns < tonumber(ARGV[4])) then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'turns', ARGV[4], 'history', ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
end
if ARGV[2] == 'last' and mine then redis.call('DEL', KEYS[2]) end
return 1
"""


@dataclass(frozen=True, slots=True)
class Write:
    """Tokens of an answer from ``start`` on, by who takes himself for its owner, and the numerics they were made with.
    Without tokens: it still goes on."""

    key: Key
    owner: str
    start: int
    tokens: bytes
    numerics: bytes = b""


@dataclass(frozen=True, slots=True)
class Begin:
    """An answer is to be one's own: if it is nobody's, or ``former`` has it."""

    key: Key
    owner: str
    head: bytes
    tokens: bytes
    former: str


@dataclass(frozen=True, slots=True)
class End:
    """An answer is over. With a ``history`` it was complete and its session is kept, with so many ``turns``; it was the
    ``last``; or it broke off, and its session stays as it was."""

    key: Key
    owner: str
    history: bytes | None
    turns: int
    last: bool

    @property
    def what(self) -> str:
        """As the hash says it."""
        return "kept" if self.history is not None else "last" if self.last else "broken"


@dataclass(frozen=True, slots=True)
class Stored:
    """What is there of a session. ``alive``: somebody has lately written to its answer; ``complete``: that was told to
    its end."""

    head: bytes | None = None
    chunks: Mapping[int, bytes] | None = None
    alive: bool = False
    complete: bool = False
    owner: str = ""
    history: bytes | None = None
    numerics: bytes = b""


class JournalStore:
    """A client of Redis. Every method raises Unavailable when it does not answer (``redis_calls.py``)."""

    def __init__(self, url: str, prefix: str = "outrider") -> None:
        """Raises ValueError for a URL that is none of Redis. It connects when it is first used."""
        self._prefix = prefix
        self._redis = open_redis(url, text=False)
        self._begin = self._redis.register_script(_BEGIN)
        self._write = self._redis.register_script(_WRITE)
        self._end = self._redis.register_script(_END)

    def _answer(self, key: Key) -> str:
        return f"{self._prefix}:answer:{key[1]}:{key[0]}"

    def _session(self, key: Key) -> str:
        return f"{self._prefix}:session:{key[1]}:{key[0]}"

    async def write(self, writes: Sequence[Write], ttl_s: float) -> list[int]:
        """Write to many answers; what became of each."""
        results: list[int] = []
        for first in range(0, len(writes), _AT_ONCE):
            some = writes[first : first + _AT_ONCE]
            arguments = [each for write in some for each in (write.owner, write.start, write.tokens, write.numerics)]
            keys = [self._answer(write.key) for write in some]
            results += await self._asked(self._write(keys=keys, args=[int(ttl_s * 1000), *arguments]))
        return results

    async def settle(self, steps: Sequence[Begin | End], answer_s: float, session_s: float) -> list[int]:
        """Begin and end answers, in this order; what became of each."""
        results: list[int] = []
        for first in range(0, len(steps), _AT_ONCE):
            pipe = self._redis.pipeline(transaction=False)
            for step in steps[first : first + _AT_ONCE]:
                await self._put(pipe, step, answer_s, session_s)
            results += [int(result) for result in await self._asked(pipe.execute())]
        return results

    async def _put(self, pipe: Any, step: Begin | End, answer_s: float, session_s: float) -> None:
        """Add a step to a pipeline, which asks nothing yet."""
        if isinstance(step, Begin):
            arguments: list[str | int | bytes] = [int(answer_s * 1000), step.owner, step.head, step.tokens, step.former]
            await self._begin(keys=[self._answer(step.key)], args=arguments, client=pipe)
            return
        keys = [self._answer(step.key), self._session(step.key)]
        ending: list[str | int | bytes] = [
            step.owner,
            step.what,
            step.history or b"",
            step.turns,
            int(session_s * 1000),
        ]
        await self._end(keys=keys, args=ending, client=pipe)

    async def find(self, key: Key) -> Stored:
        """All that is there of a session. Ids are those of our own making: no other can name another key."""
        if not _SESSION.fullmatch(key[1]):
            return Stored()
        pipe = self._redis.pipeline(transaction=True)
        pipe.time()
        pipe.hgetall(self._answer(key))
        pipe.hget(self._session(key), "history")
        (seconds, micros), fields, history = await self._asked(pipe.execute(raise_on_error=False))
        strange = [found for found in (fields, history) if isinstance(found, Exception)]
        if strange:  # keys of these names that somebody else has made
            log.warning("the journal has nonsense for session %s: %s", key[1], strange[0])
            return Stored()
        return _stored(fields, history, seconds * 1000 + micros // 1000)

    @staticmethod
    async def _asked(answer: Awaitable[Any]) -> Any:
        return await answered(answer, "journal")

    async def close(self) -> None:
        """Close the connections."""
        await cast(Any, self._redis).aclose()


def _stored(fields: Mapping[bytes, bytes], history: bytes | None, now_ms: int) -> Stored:
    if b"head" not in fields:
        return Stored(history=history)
    seen = fields.get(b"seen", b"0")
    alive = b"ended" not in fields and seen.isdigit() and now_ms - int(seen) < _SILENT_MS
    chunks = {int(name): data for name, data in fields.items() if name.isdigit()}
    complete = fields.get(b"ended", b"") in (b"kept", b"last")
    owner = fields.get(b"owner", b"").decode(errors="replace")
    return Stored(fields[b"head"], chunks, alive, complete, owner, history, fields.get(b"numerics", b""))
