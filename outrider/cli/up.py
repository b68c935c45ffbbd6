"""``outrider up``: three processes on this machine, until Ctrl-C or SIGTERM."""

import asyncio
import time
from collections.abc import Sequence

from rich.table import Table

from outrider.cli.client import connect
from outrider.cli.console import stderr
from outrider.cli.stack import Service, StackError, StackOptions, running
from outrider.server import wait_for_signal
from outrider.v1 import orchestrator_pb2 as pb

_PAIRING_S = 20.0


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
    table = Table("service", "address", "model", "dtype", "same bits at any row count")
    facts = {"target": info.target.info, "draft": info.draft.info}
    for service in stack:
        replica = facts.get(service.name)
        cells = ("", "", "")
        if replica is not None:
            cells = (replica.model_id, replica.numerics.dtype, "yes" if replica.row_invariant else "NO")
        table.add_row(service.name, service.address, *cells)
    stderr.print(table)


async def _until_stopped(stack: Sequence[Service]) -> str:
    """Wait for a signal. Raises StackError when a service ends by itself."""
    stopped = asyncio.create_task(wait_for_signal())
    ended = {asyncio.create_task(s.process.wait()) for s in stack if s.process is not None}
    await asyncio.wait({stopped, *ended}, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.cancel()
    if stopped.done():
        return stopped.result()
    stopped.cancel()
    for service in stack:
        service.check_alive()
    raise StackError("a service ended")


async def up(options: StackOptions) -> None:
    """Start, wait, print the addresses, and stop when told to. Raises StackError and OutriderError."""
    async with running(options) as stack:
        stopping = asyncio.create_task(_until_stopped(stack))
        ready = asyncio.create_task(wait_all(stack))
        await asyncio.wait({stopping, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
            info = await check_pair(stack[-1].address, with_draft=options.draft is not None)
            _print_addresses(stack, info)
            address = stack[-1].address
            stderr.print(f'ask: outrider generate --address {address} "What is a fox?"    stop: Ctrl-C')
        else:
            ready.cancel()
        stderr.print(f"{await stopping}: stopping")
    stderr.print("stopped")
