"""The load: clients in a namespace of their own that ask until they are told to stop, and compare every answer.

``python -m tests.e2e.asking``. One line of JSON on standard output for each answer; the first line says that the target
alone has answered everything once. It does not know what happens to the cluster meanwhile.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path

from outrider.client import Ask, Client, TlsPaths
from outrider.errors import OutriderError
from outrider.sampling import SamplingParams

TOKENS = 24
PROMPTS = (
    "What is a fox?",
    "Name three colours.",
    "Write one line about the sea.",
    "Say the numbers from one to ten.",
    "What do bees make?",
    "Write a line of Python that prints a list.",
)
DEADLINE_S = 120.0


def ask_of(number: int, draft_tokens: int | None) -> Ask:
    """One of the questions; every other one is sampled."""
    params = SamplingParams(temperature=0.8 * (number % 2))
    return Ask.user(
        PROMPTS[number % len(PROMPTS)], sampling=params, seed=number, max_new_tokens=TOKENS, draft_tokens=draft_tokens
    )


def tls_in(folder: Path) -> TlsPaths:
    """The files of a certificate's Secret."""
    return TlsPaths(*(str(folder / name) for name in ("ca.crt", "tls.crt", "tls.key")))


def _tell(**words: object) -> None:
    print(json.dumps(words), flush=True)


async def _ask(client: Client, number: int, alone: dict[int, tuple[int, ...]]) -> None:
    began = time.monotonic()
    try:
        answer = await client.answer(ask_of(number, None))
    except OutriderError as error:
        _tell(failed=f"{type(error).__name__}: {error.message}")
        return
    took = time.monotonic() - began
    summary = answer.finished.speculation
    _tell(
        wrong=answer.token_ids != alone[number],
        losses=answer.finished.losses,
        proposed=summary.proposed,
        draft_faults=summary.draft_faults,
        took_s=round(took, 3),
    )


async def run(addresses: list[str], tls: TlsPaths, key: str, clients: int) -> None:
    """Ask until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        made = [Client(*addresses, api_key=key, timeout_s=DEADLINE_S, tls=tls, tls_name="outrider-orchestrator")]
        made += [
            Client(*addresses, api_key=key, timeout_s=DEADLINE_S, tls=tls, tls_name="outrider-orchestrator")
            for _ in range(clients - 1)
        ]
        for client in made:
            await stack.enter_async_context(client)
        alone = {number: (await made[0].answer(ask_of(number, 0))).token_ids for number in range(2 * len(PROMPTS))}
        _tell(ready=True)

        async def one(place: int) -> None:
            number = place
            while not stop.is_set():
                await _ask(made[place], number % len(alone), alone)
                number += clients

        await asyncio.gather(*(one(place) for place in range(clients)))


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--addresses", required=True)
    parser.add_argument("--tls", required=True, type=Path)
    parser.add_argument("--key", required=True)
    parser.add_argument("--clients", type=int, default=4)
    told = parser.parse_args()
    asyncio.run(run(told.addresses.split(","), tls_in(told.tls), told.key, told.clients))
    return 0


if __name__ == "__main__":
    sys.exit(main())
