"""One orchestrator and very many sessions: rounds per second, its CPU per round and its memory per session, and how
these grow from 50 to 500.

Real processes and the real wire; synthetic engines, because models would take the cores. A pass takes a set time, so
the rounds that are asked for grow with the sessions. Every round has a block of four and goes to both services.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from bench.command import run_command
from bench.processes import BenchError
from bench.report import publish, table
from bench.turns import say
from outrider.channel import CLIENT_OPTIONS
from outrider.cli.models import chosen_pair
from outrider.cli.service import Service
from outrider.cli.stack import StackOptions, running
from outrider.v1 import orchestrator_pb2 as pb
from outrider.v1.orchestrator_pb2_grpc import OrchestratorServiceStub

_SESSIONS = (50, 100, 200, 350, 500)
_PASS_MS = {"target": "300", "draft": "20"}
_K = 4
_SETTLE_S = 8.0
_WINDOW_S = 15.0
_CHANNELS = 4
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Point:
    """What so many sessions did in a window."""

    sessions: int
    rounds_per_s: float
    cpu_us_per_round: float
    resident_mib: float


def _cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


class _Load:
    """Sessions that answer one request after another until they are stopped."""

    def __init__(self, stubs: Sequence[Any]) -> None:
        self._stubs = stubs
        self.rounds = 0

    async def session(self, number: int) -> None:
        """For ever."""
        turn = 0
        while True:
            turn += 1
            speculation = pb.Speculation(mode=pb.SPECULATION_MODE_FIXED, draft_tokens=_K)
            request = pb.GenerateRequest(
                token_ids=pb.TokenIds(ids=[1 + number, 2 + turn, 3]), max_new_tokens=400, speculation=speculation
            )
            call = self._stubs[number % len(self._stubs)].Generate(request, timeout=600)
            try:
                async for event in call:
                    self.rounds += event.HasField("delta")
            finally:
                call.cancel()


async def _measure(load: _Load, sessions: int, pid: int) -> Point:
    rounds, cpu, began = load.rounds, _cpu_s(pid), time.perf_counter()
    await asyncio.sleep(_WINDOW_S)
    done, took = load.rounds - rounds, time.perf_counter() - began
    if not done:
        raise BenchError(f"{sessions} sessions made no round in {took:.0f} s")
    return Point(sessions, done / took, (_cpu_s(pid) - cpu) / done * 1e6, _resident_mib(pid))


async def _points(service: Service) -> list[Point]:
    assert service.process is not None
    pid, points = service.process.pid, list[Point]()
    channels = [
        grpc.aio.insecure_channel(service.address, options=[*CLIENT_OPTIONS, ("grpc.use_local_subchannel_pool", 1)])
        for _ in range(_CHANNELS)
    ]
    load = _Load([OrchestratorServiceStub(channel) for channel in channels])
    tasks: list[asyncio.Task[None]] = []
    try:
        for sessions in _SESSIONS:
            tasks += [asyncio.create_task(load.session(number)) for number in range(len(tasks), sessions)]
            await asyncio.sleep(_SETTLE_S)
            points.append(await _measure(load, sessions, pid))
            for task in tasks:
                if task.done():
                    task.result()
            say(f"{sessions} sessions: {points[-1].rounds_per_s:.0f} rounds/s")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in channels:
            await channel.close()
    return points


def _publish(points: Sequence[Point]) -> None:
    rows = [
        [
            point.sessions,
            f"{point.rounds_per_s:.0f}",
            f"{point.cpu_us_per_round:.0f}",
            f"{point.resident_mib:.0f}",
        ]
        for point in points
    ]
    heads = ["sessions", "rounds/s", "CPU per round, us", "resident, MiB"]
    first, last = points[0], points[-1]
    growth_mib = last.resident_mib - first.resident_mib
    result = {
        "rounds_per_s_500": round(last.rounds_per_s, 1),
        "rounds_growth_500_vs_50": round(last.rounds_per_s / first.rounds_per_s, 2),
        "cpu_us_per_round_50": round(first.cpu_us_per_round),
        "cpu_us_per_round_500": round(last.cpu_us_per_round),
        "kib_per_further_session": round(growth_mib * 1024 / (last.sessions - first.sessions)),
    }
    publish("sessions", table(heads, rows), result)


async def _run() -> None:
    target, _ = chosen_pair(None, None, os.environ)
    variables = {
        name: {
            "OUTRIDER_ENGINE": "synthetic",
            "OUTRIDER_SYNTHETIC_PASS_MS": pass_ms,
            "OUTRIDER_KV_BYTES": "64MiB",
            "OUTRIDER_MAX_ROWS": "4096",
        }
        for name, pass_ms in _PASS_MS.items()
    }
    variables["orchestrator"] = {"OUTRIDER_MAX_ANSWERS": str(max(_SESSIONS))}
    with tempfile.TemporaryDirectory() as logs:
        async with running(StackOptions(target, target, Path(logs), port=0, variables=variables)) as stack:
            for service in stack:
                await service.wait_ready()
            _publish(await _points(stack[-1]))


if __name__ == "__main__":
    sys.exit(run_command(_run))
