"""Whether a target grows: its resident memory over 1 000 requests with the cache that `auto` chooses.

The real model behind the real batcher. Prompts of different lengths, some with a common beginning, a few rounds
each; half of the sessions are released, the others are left to eviction. Prints the memory as it goes.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

import uvloop

from bench.gap import Answer
from bench.report import publish, table
from outrider import semconv
from outrider.cli.models import chosen_pair
from outrider.inference.replica import Replica, load_replica
from outrider.replica_config import ReplicaConfig
from outrider.tokens import TokenLog

_REQUESTS = 1000
_WARM_UP = 100
_AT_ONCE = 16
_EVERY = 100
_ROUNDS = 2
_SYSTEM = list(range(300, 364))


def resident_mib() -> float:
    """Resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def _request(replica: Replica, number: int) -> None:
    draw = random.Random(number)
    own = [draw.randrange(replica.facts.vocab_size) for _ in range(draw.randrange(1, 48))]
    answer = Answer(f"request-{number}", TokenLog([*_SYSTEM, *own] if number % 2 else own), replica.facts.vocab_size)
    for _ in range(_ROUNDS):
        await answer.round(replica.batcher)
    replica.batcher.end(answer.stream)
    if number % 4 < 2:
        await replica.batcher.release(answer.name)


async def _requests(replica: Replica, first: int, count: int) -> None:
    """Some requests, so many at once."""
    for start in range(first, first + count, _AT_ONCE):
        await asyncio.gather(*(_request(replica, n) for n in range(start, min(start + _AT_ONCE, first + count))))


async def main() -> int:
    """Run the benchmark; its exit code is 0 whatever the figures."""
    target, _ = chosen_pair(None, None, os.environ)
    replica = await load_replica(ReplicaConfig(model=target), semconv.SPAN_TARGET_FORWARD)
    try:
        await _requests(replica, 0, _WARM_UP)
        sizes = [resident_mib()]
        for start in range(_WARM_UP, _WARM_UP + _REQUESTS, _EVERY):
            await _requests(replica, start, _EVERY)
            sizes.append(resident_mib())
        load = replica.engine.load()
    finally:
        await replica.close()
    rows = [[number * _EVERY, f"{size:.1f} MiB"] for number, size in enumerate(sizes)]
    result = {
        "requests": _REQUESTS,
        "first_mib": round(sizes[0], 1),
        "last_mib": round(sizes[-1], 1),
        "growth_percent": round((max(sizes) / sizes[0] - 1) * 100, 2),
        "kv_capacity_tokens": replica.facts.kv_capacity_tokens,
        "prefix_cache_queries": load.prefix_cache_queries,
        "prefix_cache_hits": load.prefix_cache_hits,
    }
    publish("memory", table(["requests", "resident"], rows), result)
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
