"""The cost of a round without a model: three real processes over loopback, passes that cost nothing.

Prints the median and the 99th percentile of a round as the client sees it, and how it splits.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench.report import publish, table
from bench.scripted import ECHO_METHOD, token_after
from outrider.cli.models import chosen_pair
from outrider.cli.ports import free_port
from outrider.cli.service import Service
from outrider.tokens import TokenLog
from outrider.v1 import common_pb2, orchestrator_pb2, orchestrator_pb2_grpc, target_pb2, target_pb2_grpc

_DRAFT_TOKENS = 4
_TOKENS = 4000
_WARM_UP = 20
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Sample:
    """One round in microseconds."""

    total: float
    propose: float
    verify: float


async def _rounds(address: str) -> list[Sample]:
    """Rounds of one long answer."""
    request = orchestrator_pb2.GenerateRequest(
        token_ids=orchestrator_pb2.TokenIds(ids=[300]),
        max_new_tokens=_TOKENS,
        speculation=orchestrator_pb2.Speculation(
            mode=orchestrator_pb2.SPECULATION_MODE_FIXED, draft_tokens=_DRAFT_TOKENS
        ),
    )
    samples = []
    async with grpc.aio.insecure_channel(address) as channel:
        before = time.perf_counter()
        async for event in orchestrator_pb2_grpc.OrchestratorServiceStub(channel).Generate(request):
            now = time.perf_counter()
            if event.HasField("delta"):
                stats = event.delta.round
                samples.append(Sample((now - before) * 1e6, stats.propose_us, stats.verify_us))
            before = now
    return samples[_WARM_UP:]


async def _engine_share(address: str) -> tuple[float, float]:
    """Medians of a verify round trip to the target alone, and of the part inside its engine, microseconds."""
    round_trips, inside = [], []
    async with grpc.aio.insecure_channel(address) as channel:
        call: Any = target_pb2_grpc.TargetServiceStub(channel).Verify()
        log, cached = TokenLog([300]), 0
        for number in range(500):
            request = target_pb2.VerifyRequest(
                session_id="bench",
                round=number,
                prefix_len=cached,
                prefix_digest=log.digest(cached),
                tokens=log.since(cached),
                draft_tokens=[token_after(len(log) - 1 + i) for i in range(_DRAFT_TOKENS)],
                sampling=common_pb2.SamplingParams(seed=1),
            )
            began = time.perf_counter()
            await call.write(request)
            response = await call.read()
            round_trips.append((time.perf_counter() - began) * 1e6)
            inside.append(float(response.timings.queue_us + response.timings.forward_us))
            cached = response.verdict.cached_len
            log.extend([*request.draft_tokens[: response.verdict.num_accepted], response.verdict.next_token])
        await call.done_writing()
    return statistics.median(round_trips[_WARM_UP:]), statistics.median(inside[_WARM_UP:])


async def _bare_round_trip(address: str) -> float:
    """Median of an echo of as many bytes as a verify request has, microseconds."""
    times = []
    async with grpc.aio.insecure_channel(address) as channel:
        call: Any = channel.stream_stream(ECHO_METHOD)()
        for _ in range(500):
            began = time.perf_counter()
            await call.write(bytes(60))
            await call.read()
            times.append((time.perf_counter() - began) * 1e6)
        await call.done_writing()
    return statistics.median(times[_WARM_UP:])


def _stack(folder: Path, tokenizer: str) -> list[Service]:
    address = {name: f"{_HOST}:{free_port(_HOST)}" for name in ("target", "draft", "orchestrator")}
    variables = {
        "OUTRIDER_LISTEN": address["orchestrator"],
        "OUTRIDER_TARGET": address["target"],
        "OUTRIDER_DRAFT": address["draft"],
        "OUTRIDER_TOKENIZER": tokenizer,
    }
    scripted = [
        Service(name, "bench.scripted", address[name], folder / name, {}, arguments=(name, address[name], tokenizer))
        for name in ("target", "draft")
    ]
    return [*scripted, Service("orchestrator", "orchestrator", address["orchestrator"], folder / "log", variables)]


def _row(name: str, values: Sequence[float]) -> list[str]:
    ordered = sorted(values)
    return [name, f"{statistics.median(ordered):.0f}", f"{ordered[int(len(ordered) * 0.99)]:.0f}"]


async def main() -> int:
    """Run the benchmark; its exit code is 0 whatever the figures."""
    tokenizer, _ = chosen_pair(None, None, os.environ)
    with tempfile.TemporaryDirectory() as folder:
        stack = _stack(Path(folder), tokenizer)
        try:
            for service in stack:
                await service.start(os.environ)
            for service in stack:
                await service.wait_ready()
            await asyncio.sleep(1.0)  # the pool monitor pairs the draft within its next turns
            samples = await _rounds(stack[-1].address)
            round_trip, inside = await _engine_share(stack[0].address)
            bare = await _bare_round_trip(stack[0].address)
        finally:
            for service in reversed(stack):
                await service.stop()
    rest = [s.total - s.propose - s.verify for s in samples]
    rows = [
        _row("round, as the client sees it", [s.total for s in samples]),
        _row(f"propose, {_DRAFT_TOKENS} scripted steps", [s.propose for s in samples]),
        _row("verify", [s.verify for s in samples]),
        _row("commit, text, stream to the client", rest),
    ]
    rows.append(["verify alone, no orchestrator", f"{round_trip:.0f}", ""])
    rows.append(["of that queue and pass in the engine", f"{inside:.0f}", ""])
    rows.append(["bare gRPC echo, same process and bytes", f"{bare:.0f}", ""])
    p50 = statistics.median(s.total for s in samples)
    result = {
        "round_p50_us": round(p50),
        "bare_echo_p50_us": round(bare),
        "rounds": len(samples),
        "draft_tokens": _DRAFT_TOKENS,
    }
    publish("round_overhead", table(["part", "p50 us", "p99 us"], rows), result)
    return 0


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
