"""``outrider top``: asks orchestrators what they do, again and again, and shows it until somebody stops it.

It knows calls and the terminal, not what is shown.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.live import Live

from outrider.cli.connecting import connect
from outrider.cli.console import print_json, stdout
from outrider.cli.top_frame import Frame, History, frame_of
from outrider.cli.top_view import view
from outrider.cli.wide import for_results
from outrider.client.line import Line
from outrider.errors import OutriderError, Unavailable
from outrider.server import wait_for_signal

_ASK_S = 2.0
"""Somebody who does not answer for so long is away."""


async def poll(line: Line, history: History) -> OutriderError | None:
    """Ask one orchestrator once; its error if it does not answer."""
    try:
        info = await line.info(_ASK_S)
    except OutriderError as error:
        history.away = error.message
        return error
    history.answered(time.monotonic(), info)
    return None


async def _poll_all(lines: Sequence[Line], histories: Sequence[History]) -> list[OutriderError | None]:
    return await asyncio.gather(*(poll(line, history) for line, history in zip(lines, histories, strict=True)))


async def once(lines: Sequence[Line], every_s: float) -> Frame:
    """What is done within one interval. Raises OutriderError when nobody answers at its end."""
    histories = [History(line.address) for line in lines]
    await _poll_all(lines, histories)
    await asyncio.sleep(every_s)
    errors = await _poll_all(lines, histories)
    first = errors[0]
    if first is not None and all(errors):
        away = isinstance(first, Unavailable) and "no orchestrator" in first.message
        raise Unavailable(f"{first.message}; start one with `outrider up`") if away else first
    return frame_of(histories)


async def watch(lines: Sequence[Line], every_s: float, console: Console) -> None:
    """Show what is done until cancelled."""
    histories = [History(line.address) for line in lines]
    began = time.monotonic()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            await _poll_all(lines, histories)
            live.update(view(frame_of(histories), datetime.now(), every_s), refresh=True)
            began = max(began + every_s, time.monotonic())
            await asyncio.sleep(began - time.monotonic())


async def top(address: str, api_key: str, every_s: float, single: bool, as_json: bool) -> None:
    """The command. Raises OutriderError."""
    async with connect(address, api_key, os.environ) as client:
        if single:
            frame = await once(client.lines, every_s)
            if as_json:
                print_json(frame.as_dict())
            else:
                for_results(stdout).print(view(frame, datetime.now(), every_s))
            return
        watching = asyncio.create_task(watch(client.lines, every_s, Console(highlight=False)))
        stopped = asyncio.create_task(wait_for_signal())
        await asyncio.wait({watching, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        watching.cancel()
        await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()
