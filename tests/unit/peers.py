"""A draft and a target of one session without models: the target's choice is a function of the prefix.

Their caches are real token logs that answer claims as the replicas do, so a wrong belief shows as a wrong text.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from opentelemetry.trace import Span

from orchestrator.peers import Outcome, Prepared, Proposal, Verdict
from outrider.errors import OutriderError
from outrider.tokens import CacheMiss, Claim, TokenLog, check_claim
from tests.unit.scripted import VOCAB, continuation, next_token


@dataclass
class Cache:
    """One replica's cache of the session."""

    log: TokenLog = field(default_factory=TokenLog)

    def take(self, claim: Claim) -> CacheMiss | list[int]:
        """The session's tokens with the claimed ones, or a miss."""
        miss = check_claim(claim, self.log)
        if miss is not None:
            return miss
        self.log.truncate(claim.prefix_len)
        self.log.extend(claim.tokens)
        return list(self.log.tokens)


@dataclass
class FakeTarget:
    """Chooses ``next_token``. ``evict(call)`` says to what length the cache shrinks before a call; None: not.

    It goes on with up to ``max_run`` rounds unasked, and has always computed one more than it was asked about; another
    round ends that. A caller that sends a block with the number of one of them, or leaves a token out, breaks the
    protocol.
    """

    evict: Callable[[int], int | None] = lambda call: None
    logprobs: bool = False
    shared: int = 0
    error: OutriderError | None = None
    max_run: int = 0
    coming: int = 0
    broken_off: int = 0
    numbers: list[int] = field(default_factory=list)
    cache: Cache = field(default_factory=Cache)
    claims: list[Claim] = field(default_factory=list)
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    _follows: int = 0

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, span: Span
    ) -> Verdict | CacheMiss:
        await asyncio.sleep(0)  # a verdict takes time, in which a message to the draft leaves
        if self.error is not None:
            raise self.error
        if self.coming and number != self._follows:
            assert number == self._follows + self.coming, "all numbers of the run are used up"
            self.coming, self.broken_off = 0, self.broken_off + 1
            self.cache.log.extend(continuation(self.cache.log.tokens, 2))  # what it was computing meanwhile
        self._follows = number + 1
        self.numbers.append(number)
        if self.coming:
            assert (block, claim.prefix_len, len(claim.tokens)) == ((), len(self.cache.log), 1)
            self.coming -= 1
        else:
            assert not (block and run)
            self._forget()
            self.claims.append(claim)
            self.coming = min(run, self.max_run)
        tokens = self.cache.take(claim)
        if isinstance(tokens, CacheMiss):
            self.coming = 0
            return tokens
        return self._judge(tokens, block)

    def _forget(self) -> None:
        length = self.evict(len(self.claims))
        if length is not None:
            self.cache.log.truncate(min(length, len(self.cache.log)))

    def _judge(self, tokens: list[int], block: tuple[int, ...]) -> Verdict:
        self.blocks.append(block)
        accepted = 0
        while accepted < len(block) and next_token(tokens) == block[accepted]:
            tokens.append(block[accepted])
            accepted += 1
        self.cache.log.extend(block[:accepted])
        logprobs = tuple(-float(i) for i in range(accepted + 1)) if self.logprobs else ()
        return Verdict(accepted, next_token(tokens), logprobs, len(self.cache.log), self.shared)


Behaviour = Callable[[list[int], int], Sequence[int]]
"""From the session's tokens and the count wanted to a block."""


def right(tokens: list[int], count: int) -> Sequence[int]:
    return continuation(tokens, count)


def half_right(tokens: list[int], count: int) -> Sequence[int]:
    block = continuation(tokens, count)
    block[count // 2 :] = [(token + 1) % VOCAB for token in block[count // 2 :]]
    return block


def wrong(tokens: list[int], count: int) -> Sequence[int]:
    return [(next_token(tokens) + 1) % VOCAB] * count


def empty(tokens: list[int], count: int) -> Sequence[int]:
    return []


def overlong(tokens: list[int], count: int) -> Sequence[int]:
    return continuation(tokens, count + 3)


def failing(tokens: list[int], count: int) -> Sequence[int]:
    raise OutriderError("the draft is on fire")


def lying(tokens: list[int], count: int) -> Sequence[int]:
    """A right block, with a cached length that is far off; see ``FakeDraft``."""
    return continuation(tokens, count)


def forgetful(tokens: list[int], count: int) -> Sequence[int]:
    """Never reached: this draft misses every claim."""
    raise AssertionError


@dataclass
class FakeDraft:
    """Follows a script of behaviours, one per round, again and again."""

    script: Sequence[Behaviour] = (right,)
    available: bool = True
    evict: Callable[[int], int | None] = lambda call: None
    cache: Cache = field(default_factory=Cache)
    claims: list[Claim] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    late: bool = False
    came_late: int = 0
    _prepared: Prepared | CacheMiss | None = None

    async def look_ahead(
        self, number: int, claim: Claim, block: tuple[int, ...], fanout: tuple[int, ...], count: int, span: Span
    ) -> None:
        """Prepares for the target's own token among the outcomes wanted, and else for wrong ones."""
        behave = self.script[number % len(self.script)]
        self._prepared = None
        tokens = CacheMiss(0) if behave is forgetful else self.cache.take(claim)
        if isinstance(tokens, CacheMiss):
            self._prepared = tokens
            return
        blocks = {}
        for accepted, wanted in enumerate(fanout):
            path = [*tokens, *block[:accepted]]
            for rank in range(wanted):
                token = (next_token(path) + rank) % VOCAB
                blocks[accepted, token] = tuple(behave([*path, token], count))
        self.cache.log.extend(block)
        self._prepared = Prepared(blocks, 10_000 if behave is lying else len(tokens))

    def prepared(self) -> Prepared | CacheMiss | None:
        return None if self.late else self._prepared

    def preparation_s(self) -> float | None:
        return None if self.late and self._prepared is not None else 0.01

    async def propose(
        self, number: int, claim: Claim, count: int, span: Span, late: Outcome | None = None
    ) -> Proposal | CacheMiss:
        if self.late and late is not None and isinstance(self._prepared, Prepared):
            found, self._prepared = self._prepared, None
            if block := found.blocks.get(late):
                self.came_late += 1
                return Proposal(block[:count], found.cached_len, prepared=True)
        length = self.evict(len(self.claims))
        if length is not None:
            self.cache.log.truncate(min(length, len(self.cache.log)))
        self.claims.append(claim)
        self.counts.append(count)
        behave = self.script[number % len(self.script)]
        if behave is forgetful:
            return CacheMiss(0)
        tokens = self.cache.take(claim)
        if isinstance(tokens, CacheMiss):
            return tokens
        block = tuple(behave(tokens, count))
        self.cache.log.extend(block[:-1])
        return Proposal(block, 10_000 if behave is lying else len(self.cache.log))
