"""How long running sessions wait for a token when a long prompt arrives: the real model behind the real batcher.

Eight sessions decode side by side; then a prompt of 2 000 tokens comes, several times. Prints the gaps between the
tokens of a running session while it is quiet and while a prompt is worked off, and the goal: no gap longer than
one pass with a chunk plus five times the quiet gap.
"""

import asyncio
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import uvloop

from bench.report import publish, table
from outrider import semconv
from outrider.cli.models import chosen_pair
from outrider.inference.batcher import Asked, Batcher
from outrider.inference.replica import Replica, load_replica
from outrider.inference.stream import Stream
from outrider.replica_config import ReplicaConfig
from outrider.sampling import SamplingParams
from outrider.tokens import Claim, TokenLog
from target_service.verifier import Verify

_SESSIONS = 8
_PROMPT_TOKENS = 2000
_PROMPTS = 5
_WARM_UP_S = 3.0
_QUIET_S = 4.0


@dataclass(slots=True)
class Answer:
    """One session that decodes for ever, one token a round. ``gaps`` and ``passes`` in seconds, ``at`` absolute."""

    name: str
    log: TokenLog
    vocab_size: int
    stream: Stream = field(default_factory=Stream)
    cached: int = 0
    at: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)

    async def round(self, batcher: Batcher) -> None:
        """The next token."""
        claim = Claim(self.cached, self.log.digest(self.cached), tuple(self.log.since(self.cached)))
        outcome = await batcher.run(
            Asked(self.name, claim, Verify(SamplingParams(), (), self.vocab_size), stream=self.stream)
        )
        self.cached = outcome.cached_len
        self.log.extend([outcome.result.next_token])
        now = time.perf_counter()
        if self.at:
            self.gaps.append(now - self.at[-1])
            self.passes.append(outcome.timings.forward_us / 1e6)
        self.at.append(now)

    async def run(self, batcher: Batcher) -> None:
        """Tokens until it is cancelled."""
        while True:
            await self.round(batcher)

    def forget(self) -> None:
        """Begin a new measurement; the gap that is open belongs to it."""
        self.gaps.clear()
        self.passes.clear()


@dataclass(frozen=True, slots=True)
class Window:
    """Gaps and the passes that ended them, of all sessions, over some time; how long the prompts took."""

    gaps: Sequence[float]
    passes: Sequence[float]
    prompt_s: float = 0.0


def _answers(vocab_size: int) -> list[Answer]:
    draw = random.Random(1)
    prompts = [[draw.randrange(vocab_size) for _ in range(100)] for _ in range(_SESSIONS)]
    return [Answer(f"running-{i}", TokenLog(tokens), vocab_size) for i, tokens in enumerate(prompts)]


def _window(answers: Sequence[Answer], prompt_s: float = 0.0) -> Window:
    gaps = [gap for answer in answers for gap in answer.gaps]
    return Window(gaps, [spent for answer in answers for spent in answer.passes], prompt_s)


async def _prompt(replica: Replica, number: int) -> float:
    """Seconds to the first token of a prompt that nobody has asked before."""
    draw = random.Random(100 + number)
    tokens = [draw.randrange(replica.facts.vocab_size) for _ in range(_PROMPT_TOKENS)]
    arriving = Answer(f"prompt-{number}", TokenLog(tokens), replica.facts.vocab_size)
    began = time.perf_counter()
    await arriving.round(replica.batcher)
    spent = time.perf_counter() - began
    replica.batcher.end(arriving.stream)
    await replica.batcher.release(arriving.name)
    return spent


async def _measure(replica: Replica) -> tuple[Window, Window]:
    """The quiet window and the one with prompts. The first prompt only warms up."""
    answers = _answers(replica.facts.vocab_size)
    tasks = [asyncio.create_task(answer.run(replica.batcher)) for answer in answers]
    await asyncio.sleep(_WARM_UP_S)
    await _prompt(replica, 0)
    for answer in answers:
        answer.forget()
    await asyncio.sleep(_QUIET_S)
    quiet = _window(answers)
    for answer in answers:
        answer.forget()
    spent = [await _prompt(replica, 1 + number) for number in range(_PROMPTS)]
    busy = _window(answers, statistics.median(spent))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return quiet, busy


def _row(name: str, values: Sequence[float]) -> list[str]:
    ordered = sorted(values)
    at = [statistics.median(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1]]
    return [name, *(f"{value * 1000:.1f}" for value in at)]


async def main() -> int:
    """Run the benchmark; its exit code is 0 whatever the figures."""
    target, _ = chosen_pair(None, None, os.environ)
    replica = await load_replica(ReplicaConfig(model=target, kv_bytes=1 << 30), semconv.SPAN_TARGET_FORWARD)
    try:
        quiet, busy = await _measure(replica)
    finally:
        await replica.close()
    rows = [
        _row("gap, quiet", quiet.gaps),
        _row("gap, a prompt arrives", busy.gaps),
        _row("pass, quiet", quiet.passes),
        _row("pass, a prompt arrives", busy.passes),
    ]
    chunk_s, quiet_s = statistics.median(busy.passes), statistics.median(quiet.gaps)
    allowed = chunk_s + 5 * quiet_s
    result = {
        "sessions": _SESSIONS,
        "prompt_tokens": _PROMPT_TOKENS,
        "quiet_gap_p50_ms": round(quiet_s * 1000, 1),
        "quiet_gap_max_ms": round(max(quiet.gaps) * 1000, 1),
        "worst_gap_ms": round(max(busy.gaps) * 1000, 1),
        "chunk_ms": round(chunk_s * 1000, 1),
        "allowed_gap_ms": round(allowed * 1000, 1),
        "within": max(busy.gaps) <= allowed,
        "prompt_s": round(busy.prompt_s, 2),
    }
    publish("gap", table(["milliseconds", "p50", "p99", "max"], rows), result)
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
