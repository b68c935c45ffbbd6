"""Rolling restarts under load: ``python -m tests.rolling --restarts 20``.

Two of each service as processes, with one Redis for registry and journal, and clients that never stop asking. One
process after another gets SIGTERM, ends by itself, and is replaced. No request fails, no token changes, every exit code
is 0. Engines are synthetic: their text depends on every token in the caches, and a process starts in seconds.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from outrider.cli.console import print_result
from outrider.client import Ask, Client
from outrider.sampling import SamplingParams
from tests.integration.processes import Service, free_address, running, serves
from tests.redis_server import redis_server
from tests.tiny import build_model
from tests.waiting import until

_ROLES = ("target_service", "draft_service", "orchestrator")
_TOKENS = 120
_CLIENTS = 6
_ENGINE = {"OUTRIDER_ENGINE": "synthetic", "OUTRIDER_SYNTHETIC_PASS_MS": "10", "OUTRIDER_KV_BYTES": "8MiB"}


@dataclass(slots=True)
class Rolled:
    """What was seen."""

    restarts: int = 0
    answers: int = 0
    losses: int = 0
    wrong: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _System:
    variables: dict[str, dict[str, str]]
    stack: contextlib.AsyncExitStack
    services: dict[str, list[Service]] = field(default_factory=dict)

    async def start(self, role: str, address: str) -> Service:
        """One process, once it serves."""
        variables = self.variables[role] | {"OUTRIDER_LISTEN": address}
        service = await self.stack.enter_async_context(running(role, variables))
        await serves(service)
        return service

    async def replace(self, role: str, place: int) -> int:
        """Stop one with SIGTERM and start it again at its address; its exit code."""
        old = self.services[role][place]
        await old.terminate()
        code, _ = await old.ended()
        self.services[role][place] = await self.start(role, old.address)
        return code


@contextlib.asynccontextmanager
async def _system(model: Path) -> AsyncIterator[_System]:
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server())
        shared = {"OUTRIDER_REGISTRY": redis.url}
        replica = shared | _ENGINE | {"OUTRIDER_MODEL": str(model)}
        orchestrator = shared | {"OUTRIDER_TOKENIZER": str(model), "OUTRIDER_JOURNAL": redis.url}
        made = _System(dict(zip(_ROLES, (replica, replica, orchestrator), strict=True)), stack)
        for role in _ROLES:
            made.services[role] = [await made.start(role, free_address()) for _ in range(2)]
        yield made


def _ask(number: int, draft_tokens: int | None) -> Ask:
    params = SamplingParams(temperature=0.8)
    return Ask(
        token_ids=(1 + number, 2, 3), sampling=params, seed=number, max_new_tokens=_TOKENS, draft_tokens=draft_tokens
    )


async def _load(client: Client, number: int, alone: tuple[int, ...], seen: Rolled, enough: asyncio.Event) -> None:
    while not enough.is_set():
        try:
            answer = await client.answer(_ask(number, None))
        except Exception as error:
            seen.failed.append(repr(error))
            continue
        seen.answers += 1
        seen.losses += answer.finished.losses
        if answer.token_ids != alone:
            seen.wrong.append(number)


async def roll(model: Path, restarts: int) -> Rolled:
    """So many restarts, one role after another."""
    seen, enough = Rolled(), asyncio.Event()
    async with _system(model) as system:
        addresses = [service.address for service in system.services["orchestrator"]]
        async with Client(*addresses) as client:

            async def drafted() -> bool:
                info = await client.info()
                return sum(status.HasField("info") for status in (*info.targets, *info.drafts)) == 4

            await until(drafted, "all replicas are known")
            alone = [(await client.answer(_ask(number, 0))).token_ids for number in range(_CLIENTS)]
            load = [
                asyncio.create_task(_load(client, number, alone[number], seen, enough)) for number in range(_CLIENTS)
            ]
            for number in range(restarts):
                role, place = _ROLES[number % 3], number // 3 % 2
                seen.codes.append(await system.replace(role, place))
                seen.restarts += 1
            enough.set()
            await asyncio.gather(*load)
    return seen


async def _main(restarts: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        seen = await roll(build_model(Path(folder) / "llama"), restarts)
    print(*seen.failed, sep="\n")
    result = {
        "restarts": seen.restarts,
        "answers": seen.answers,
        "resumed": seen.losses,
        "failed": len(seen.failed),
        "wrong": len(seen.wrong),
        "bad_exit_codes": sum(code != 0 for code in seen.codes),
    }
    print_result(result)
    return 1 if seen.failed or seen.wrong or any(seen.codes) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=20)
    sys.exit(asyncio.run(_main(parser.parse_args().restarts)))
