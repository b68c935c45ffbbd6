"""The journal in Redis: its keys, and what is done to them in one step each.

Names, for the default prefix ``outrider``:

- ``outrider:answer:<session>:<tenant>``: a hash of an answer in the making: ``owner``, who makes it; ``head``, a
  JournalledAnswer; ``<position>``, tokens from there on, four bytes each; ``seen``, Redis's time of the last write in
  milliseconds; ``ended``, once it is over. It expires as a whole, a while after its last write.
- ``outrider:session:<session>:<tenant>``: a JournalledHistory, a session that waits for its next turn.

Whoever writes the head is the owner; a former one is told so by its next write. It does not know answers or messages.
"""

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from outrider.redis_calls import answered, open_redis

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
if ARGV[5] == '1' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
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
  local start, data = ARGV[3 * i], ARGV[3 * i + 1]
  if not owner then results[i] = -1
  elseif owner ~= ARGV[3 * i - 1] then results[i] = 0
  else
    if #data > 0 then redis.call('HSET', key, start, data) end
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
if owner and owner ~= ARGV[1] then return 0 end
if owner then redis.call('HSET', KEYS[1], 'ended', 1) end
if ARGV[2] == 'keep' then redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4]) end
if ARGV[2] == 'drop' then redis.call('DEL', KEYS[2]) end
return 1
"""


@dataclass(frozen=True, slots=True)
class Write:
    """Tokens of an answer from ``start`` on, by who takes himself for its owner. Without tokens: it still goes on."""

    key: Key
    owner: str
    start: int
    tokens: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """What is there of a session. ``alive``: somebody has lately written to its answer."""

    head: bytes | None = None
    chunks: Mapping[int, bytes] | None = None
    alive: bool = False
    owner: str = ""
    history: bytes | None = None


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

    async def begin(self, key: Key, owner: str, head: bytes, tokens: bytes, ttl_s: float, again: bool) -> int:
        """Make an answer one's own, whosesoever it was. ``again``: only if nobody's is there."""
        arguments: list[str | int | bytes] = [int(ttl_s * 1000), owner, head, tokens, int(again)]
        return int(await self._asked(self._begin(keys=[self._answer(key)], args=arguments)))

    async def write(self, writes: Sequence[Write], ttl_s: float) -> list[int]:
        """Write to many answers; what became of each."""
        results: list[int] = []
        for first in range(0, len(writes), _AT_ONCE):
            some = writes[first : first + _AT_ONCE]
            arguments = [each for write in some for each in (write.owner, write.start, write.tokens)]
            keys = [self._answer(write.key) for write in some]
            results += await self._asked(self._write(keys=keys, args=[int(ttl_s * 1000), *arguments]))
        return results

    async def end(self, key: Key, owner: str, history: bytes | None, drop: bool, ttl_s: float) -> int:
        """An answer is over: keep its session as it is now, or drop it, or leave it as it was."""
        what = "keep" if history is not None else "drop" if drop else "leave"
        arguments: list[str | int | bytes] = [owner, what, history or b"", int(ttl_s * 1000)]
        return int(await self._asked(self._end(keys=[self._answer(key), self._session(key)], args=arguments)))

    async def find(self, key: Key) -> Stored:
        """All that is there of a session. Ids are those of our own making: no other can name another key."""
        if not _SESSION.fullmatch(key[1]):
            return Stored()
        pipe = self._redis.pipeline(transaction=True)
        pipe.time()
        pipe.hgetall(self._answer(key))
        pipe.get(self._session(key))
        (seconds, micros), fields, history = await self._asked(pipe.execute())
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
    return Stored(fields[b"head"], chunks, alive, fields.get(b"owner", b"").decode(errors="replace"), history)
