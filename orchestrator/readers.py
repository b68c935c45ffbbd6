"""Clients that read what they are sent, and the end of patience with those that do not.

A client that stops reading holds up its own answer only: nothing is computed ahead of it but a run. Yet the answer
keeps its place and its caches meanwhile, so it is given up after a while; its client can still resume it. It knows
tasks, not answers.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

log = logging.getLogger(__name__)


class Readers:
    """Owner of which calls wait for their client to take an event, and since when."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: dict[asyncio.Task[Any], float] = {}

    @contextlib.contextmanager
    def handing(self) -> Iterator[None]:
        """Around the handing over of one event, in the task of the call."""
        task = asyncio.current_task()
        assert task is not None
        self._since[task] = time.monotonic()
        try:
            yield
        finally:
            self._since.pop(task, None)

    def give_up(self) -> None:
        """Cancel the calls whose client has not read for too long."""
        for task, since in list(self._since.items()):
            if time.monotonic() - since >= self._patience_s:
                log.warning("a client has not read its answer for %g s; it is given up", self._patience_s)
                del self._since[task]
                task.cancel()
