"""How a benchmark that starts processes runs as a command: every system is stopped whatever ends it."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

import uvloop

from bench.processes import BenchError
from bench.turns import say


async def _stoppable(work: Callable[[], Awaitable[None]]) -> None:
    """SIGTERM ends the run like Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await work()


def run_command(work: Callable[[], Awaitable[None]]) -> int:
    """Run the work; 0 whatever the figures, 1 when something failed, 130 when it was stopped."""
    try:
        uvloop.run(_stoppable(work))
    except BenchError as error:
        say(f"error: {error}")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped")
        return 130
    return 0
