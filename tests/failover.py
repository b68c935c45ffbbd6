"""How long an answer stands still when something goes: ``python -m tests.failover``.

One answer at a time, of synthetic engines that make a token every 10 ms; in its middle a process that it uses is killed
or frozen. Shown is the longest time between two of its tokens, and whether the tokens are those of an undisturbed run.
"""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

from outrider.cli.console import print_result
from outrider.client import Ask, Client, Delta
from outrider.v1 import orchestrator_pb2 as pb
from tests.integration.processes import free_address
from tests.tiny import build_model
from tests.two_of_each import System, all_known, two_of_each
from tests.waiting import until

_TOKENS = 200
_K = 4
_STALL_S = 2.0
"""Of the client; then the orchestrator must answer something else within 5 s."""


async def _answer(client: Client, k: int, in_the_middle: Callable[[], Awaitable[object]]) -> tuple[list[int], float]:
    """Its tokens, and the longest wait for one after the event, in seconds."""
    tokens: list[int] = []
    last, longest, happened = 0.0, 0.0, False
    ask = Ask(token_ids=(7, 8, 9), seed=1, max_new_tokens=_TOKENS, draft_tokens=k)
    async with aclosing(client.stream(ask)) as events:
        async for event in events:
            if not isinstance(event, Delta):
                continue
            now = time.monotonic()
            longest = max(longest, now - last) if happened else 0.0
            tokens.extend(event.token_ids)
            if len(tokens) >= _TOKENS // 3 and not happened:
                await in_the_middle()
                happened = True
            last = time.monotonic()
    return tokens, longest


async def _used(system: System) -> set[str]:
    """Addresses of the processes that have the answer."""
    used: set[str] = set()
    for service in system.services["orchestrator"]:
        async with Client(service.address) as client:
            info = await client.info()
        if info.active_requests:
            replicas = (*info.targets, *info.drafts)
            used |= {service.address, *(status.address for status in replicas if status.sessions)}
    return used


async def _send(system: System, role: str, number: signal.Signals) -> None:
    """To the one of a role that has the answer."""
    used = await _used(system)
    (chosen,) = (service for service in system.services[role] if service.address in used)
    chosen.process.send_signal(number)
    if number is signal.SIGKILL:
        await chosen.process.wait()


async def _nothing() -> None:
    """No event."""


async def _heal(system: System, client: Client) -> None:
    """Everything runs again and is known."""
    for role, services in system.services.items():
        for place, service in enumerate(services):
            if service.process.returncode is None:
                service.process.send_signal(signal.SIGCONT)
            else:
                services[place] = await system.start(role, service.address)

    async def ready() -> bool:
        info = await client.info()
        return all(status.state == pb.REPLICA_STATE_READY for status in (*info.targets, *info.drafts))

    await all_known(client)
    await until(ready, "all replicas are in use", 30.0)


async def _first_session(system: System, client: Client) -> float:
    """Seconds from the moment that a further target serves to its first session."""
    third = await system.start("target_service", free_address())
    began = time.monotonic()
    number = 0
    while True:
        number += 1
        await client.answer(Ask(token_ids=(number % 300, 1), max_new_tokens=2, draft_tokens=0, keep_session=True))
        for status in (await client.info()).targets:
            if status.address == third.address and status.info.load.sessions:
                return time.monotonic() - began


async def _forgotten(system: System, client: Client) -> float:
    """Seconds until a target that was killed is out of the list."""
    victim = system.services["target_service"][0]
    victim.process.kill()
    began = time.monotonic()

    async def gone() -> bool:
        return victim.address not in {status.address for status in (await client.info()).targets}

    await until(gone, "it is forgotten", 30.0)
    return time.monotonic() - began


async def _run(model: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    async with two_of_each(model) as system:
        addresses = [service.address for service in system.services["orchestrator"]]
        async with Client(*addresses, stall_s=_STALL_S) as client:
            await all_known(client)
            alone, quiet = await _answer(client, 0, _nothing)
            found["quiet_gap_s"] = quiet
            for role in system.services:
                for number in (signal.SIGKILL, signal.SIGSTOP):
                    event = partial(_send, system, role, number)
                    tokens, longest = await _answer(client, _K if role == "draft_service" else 0, event)
                    name = f"{role.removesuffix('_service')}_{'killed' if number is signal.SIGKILL else 'frozen'}"
                    found[f"{name}_gap_s"] = longest
                    found["wrong"] = found.get("wrong", 0) + (tokens != alone)
                    await _heal(system, client)
            found["new_target_first_session_s"] = await _first_session(system, client)
            found["dead_target_forgotten_s"] = await _forgotten(system, client)
    return found


def main() -> int:
    """1 when a token was wrong."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_run(build_model(Path(folder) / "llama")))
    for name, value in found.items():
        print(f"{name:<32} {value:.3f}")
    print_result({name: round(value, 3) for name, value in found.items()})
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
