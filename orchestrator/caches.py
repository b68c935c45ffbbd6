"""What the orchestrator believes that a replica has cached, and how a CacheMiss corrects it (design I2, I3)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from orchestrator.peers import Proposal, Verdict
from outrider.errors import ProtocolViolation
from outrider.tokens import CacheMiss, Claim, TokenLog

_ATTEMPTS = 3  # as believed, as the replica says, from the first token


@dataclass(slots=True)
class CacheView:
    """What the orchestrator believes that a replica has cached of a session."""

    length: int = 0

    def claim(self, log: TokenLog) -> Claim:
        """The believed prefix and all tokens after it, at least one."""
        prefix = min(self.length, len(log) - 1)
        return Claim(prefix, log.digest(prefix), tuple(log.since(prefix)))


Answered = TypeVar("Answered", Proposal, Verdict)


async def resending(
    view: CacheView, log: TokenLog, send: Callable[[Claim], Awaitable[Answered | CacheMiss]]
) -> Answered:
    """Send the tokens after the believed prefix; on a CacheMiss believe the replica and send again."""
    for attempt in range(_ATTEMPTS):
        if attempt == _ATTEMPTS - 1:
            view.length = 0  # a cache that keeps shrinking under the offers: this claim always holds
        answer = await send(view.claim(log))
        if not isinstance(answer, CacheMiss):
            return answer
        view.length = answer.cached_len
    raise ProtocolViolation("the replica misses every prefix, the empty one included")
