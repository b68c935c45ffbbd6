"""Ending tasks that run for ever. It does not know what they do."""

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)
_AGAIN_S = 0.2


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Return when all of them are done. One that had failed by itself is logged.

    One cancellation is not always enough: a library that turns it into an error or into an answer, in the moment in
    which both come, keeps it to itself (grpcio's calls and the ``wait_for`` of Python 3.11 do), and a task that tries
    again after every error would go on for ever.
    """
    running = {task for task in tasks if task is not None}
    for task in [task for task in running if task.done() and not task.cancelled() and task.exception()]:
        log.error("%s had failed", task.get_name(), exc_info=task.exception())
    while running := {task for task in running if not task.done()}:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_AGAIN_S)
