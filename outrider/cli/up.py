"""``outrider up``: the services as processes of this machine, until Ctrl-C or SIGTERM."""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping, Sequence

from outrider.cli.connecting import connect
from outrider.cli.console import stderr
from outrider.cli.observing import whereabouts
from outrider.cli.service import Service, StackError
from outrider.cli.stack import StackOptions, running
from outrider.server import wait_for_signal
from outrider.v1 import orchestrator_pb2 as pb

_PAIRING_S = 20.0
_RESTART_S = 1.0


async def wait_all(stack: Sequence[Service]) -> None:
    """Show each service until it serves. Raises StackError when one ends first."""
    began = time.monotonic()
    with stderr.status("") as status:
        waiting = {asyncio.create_task(service.wait_ready(), name=service.name) for service in stack}
        try:
            while waiting:
                names = ", ".join(sorted(task.get_name() for task in waiting))
                status.update(f"loading: {names} ({time.monotonic() - began:.0f} s)")
                done, waiting = await asyncio.wait(waiting, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                    stderr.print(f"{task.get_name()} is ready after {time.monotonic() - began:.1f} s")
        finally:
            for task in waiting:
                task.cancel()


async def check_pair(address: str, with_draft: bool) -> pb.GetInfoResponse:
    """Wait until the orchestrator uses the draft. Raises StackError when it refuses it."""
    give_up = time.monotonic() + _PAIRING_S
    async with connect(address) as client:
        while True:
            info = await client.info()
            if info.draft.state == pb.REPLICA_STATE_REFUSED:
                raise StackError(f"the draft is refused: {info.draft.reason}")
            if not with_draft or info.draft.state == pb.REPLICA_STATE_READY:
                return info
            if time.monotonic() > give_up:
                raise StackError(f"the orchestrator cannot use the draft: {info.draft.reason}")
            await asyncio.sleep(0.1)


def _print_addresses(stack: Sequence[Service], info: pb.GetInfoResponse) -> None:
    facts = {status.address: status.info for status in (*info.targets, *info.drafts) if status.HasField("info")}
    for service in stack:
        replica = facts.get(service.address)
        words = f"{service.name:<12} {service.address}"
        if replica is not None:
            bits = "same bits at any row count" if replica.row_invariant else "NOT the same bits at any row count"
            words += f"  {replica.model_id}, {replica.numerics.dtype}, {bits}"
        stderr.print(words, markup=False, soft_wrap=True)
    for line in whereabouts(stack):
        stderr.print(line, markup=False, soft_wrap=True)
    ask = f'outrider generate --address {stack[-1].address} "What is a fox?"'
    stderr.print(f"ask: {ask}    stop: Ctrl-C", soft_wrap=True)


async def _keep_running(service: Service, environment: Mapping[str, str]) -> None:
    """Start a service again whenever it ends, after a pause that keeps a broken one from spinning."""
    while True:
        assert service.process is not None
        code = await service.process.wait()
        stderr.print(f"[yellow]the {service.name} ended with code {code}[/yellow] ({service.log}); starting it again")
        await asyncio.sleep(_RESTART_S)
        await service.start(environment)
        with contextlib.suppress(StackError):
            await service.wait_ready()
            stderr.print(f"{service.name} is ready again")


async def _serve_until_stopped(
    stack: Sequence[Service], stopped: "asyncio.Task[str]", environment: Mapping[str, str]
) -> None:
    """Watch the services until a signal comes."""
    watchers = [asyncio.create_task(_keep_running(service, environment)) for service in stack]
    try:
        done, _ = await asyncio.wait({stopped, *watchers}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()
    finally:
        for task in watchers:
            task.cancel()


async def up(options: StackOptions) -> None:
    """Start, wait, print the addresses, and stop when told to. Raises StackError and OutriderError."""
    async with running(options) as stack:
        stopped = asyncio.create_task(wait_for_signal())
        ready = asyncio.create_task(wait_all(stack))
        await asyncio.wait({stopped, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
            info = await check_pair(stack[-1].address, with_draft=options.draft is not None)
            _print_addresses(stack, info)
            await _serve_until_stopped(stack, stopped, {**os.environ, **options.environment})
        ready.cancel()
        stderr.print(f"{stopped.result()}: stopping")
    stderr.print("stopped")
