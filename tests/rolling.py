"""Rolling restarts under load: ``python -m tests.rolling --restarts 20``.

Two of each service as processes, with one Redis for registry and journal, and clients that never stop asking. One
process after another gets SIGTERM, ends by itself, and is replaced. No request fails, no token changes, every exit code
is 0. Engines are synthetic: their text depends on every token in the caches, and a process starts in seconds.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from outrider.cli.console import print_result
from outrider.client import Ask, Client
from outrider.sampling import SamplingParams
from tests.tiny import build_model
from tests.two_of_each import ROLES, all_known, two_of_each

_TOKENS = 120
_CLIENTS = 6


@dataclass(slots=True)
class Rolled:
    """What was seen."""

    restarts: int = 0
    answers: int = 0
    losses: int = 0
    wrong: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)


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
    async with two_of_each(model) as system:
        addresses = [service.address for service in system.services["orchestrator"]]
        async with Client(*addresses) as client:
            await all_known(client)
            alone = [(await client.answer(_ask(number, 0))).token_ids for number in range(_CLIENTS)]
            load = [
                asyncio.create_task(_load(client, number, alone[number], seen, enough)) for number in range(_CLIENTS)
            ]
            for number in range(restarts):
                role, place = ROLES[number % 3], number // 3 % 2
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
