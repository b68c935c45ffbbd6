"""The thread that owns the engine, and the bridge to it from an event loop.

Handlers await ``run``; everything that touches the engine happens on the thread, between passes, from the
loading of the model on: a second thread that ever computed would leave a second pool of workers behind, and
OpenMP lets oversubscribed pools sleep at every barrier (measured: passes half as fast). It does not know what
a job is for.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from outrider.errors import OutriderError, Unavailable
from outrider.inference.engine import Engine
from outrider.inference.job import Job, Outcome
from outrider.inference.program import Program
from outrider.inference.stream import Stream
from outrider.tokens import Claim

log = logging.getLogger(__name__)
_SWEEP_S = 1.0
_RETRY_S = 0.05
"""How often the engine looks again at rounds that wait for memory, when nothing else wakes it."""


def _post(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *values: Any) -> None:
    """Call a function on the loop; a loop that has closed meanwhile needs no answer."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *values)


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    """Give a future its result or exception, unless whoever waited has gone."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


@dataclass(frozen=True, slots=True)
class Asked:
    """A round as it is asked for; without a stream an answer of its own. ``optional``: see ``admission.py``.

    ``trace`` gives whom passes name that serve it: called by the one who asks for the first round, on the engine's
    thread for each that follows.
    """

    session_id: str
    claim: Claim
    program: Program
    trace: Callable[[], Any] | None = None
    stream: Stream | None = None
    optional: bool = False

    def job(self, deliver: Callable[[Outcome | Exception], None]) -> Job:
        """The round on its way through the engine."""
        job = Job(self.session_id, self.claim, self.program, deliver, optional=self.optional)
        job.stream = self.stream or job.stream
        job.trace, job.next_trace = self.trace() if self.trace is not None else None, self.trace
        return job


class Batcher:
    """Feeds an engine from any number of tasks of one event loop."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._commands: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="engine", daemon=True)
        self._closed = False
        self._next_sweep = 0.0
        self._progress = False

    async def start(self, build: Callable[[], Engine]) -> Engine:
        """Start the thread and build the engine on it. Raises what ``build`` raises."""
        self._thread.start()
        self._engine = await self.call(build)
        return self._live

    def close(self) -> None:
        """Stop the thread after the pass that runs; rounds still in the engine end with Unavailable."""
        self._closed = True
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join()

    async def run(self, asked: Asked) -> Outcome:
        """The one outcome of a round. Raises what the engine or the program raised; cancelling frees its work."""
        async with contextlib.aclosing(self.outcomes(asked)) as outcomes:
            return await anext(outcomes)

    async def outcomes(self, asked: Asked) -> AsyncGenerator[Outcome, None]:
        """Outcomes of a round as they come. Raises what the engine or the program raised; closing it frees its work.

        An optional round that is closed leaves what it has prepared to the next one.
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Outcome | Exception] = asyncio.Queue()
        engine = self._live  # on the caller's side: an error inside a command would end the thread
        job = asked.job(lambda outcome: _post(loop, told.put_nowait, outcome))
        self._send(lambda: engine.submit(job))
        over = False
        try:
            while not over:
                outcome = await told.get()
                over = isinstance(outcome, Exception) or outcome.last
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome
        finally:
            job.cancelled = not over

    def end(self, stream: Stream) -> None:
        """A session's stream has ended: what it holds may be had by others from now on."""
        stream.open = False
        engine = self._engine
        if engine is not None and not self._closed:
            self._commands.put(lambda: engine.end(stream))  # wakes the thread too

    async def release(self, session_id: str) -> bool:
        """Forget a session."""
        return bool(await self.call(lambda: self._live.release(session_id)))

    async def call(self, function: Callable[[], Any]) -> Any:
        """Run a function on the engine's thread, between passes."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def command() -> None:
            try:
                result = function()
            except Exception as error:
                _post(loop, _settle, future, error)
            else:
                _post(loop, _settle, future, result)

        self._send(command)
        return await future

    def _send(self, command: Callable[[], Any]) -> None:
        if self._closed:
            raise Unavailable("the engine has stopped")
        self._commands.put(command)

    @property
    def _live(self) -> Engine:
        if self._engine is None:
            raise Unavailable("the engine is still loading")
        return self._engine

    def _loop(self) -> None:
        while self._take_commands():
            if self._engine is not None:
                self._turn(self._engine)
        if self._engine is not None:
            self._engine.abort(Unavailable("the replica is stopping"))

    def _turn(self, engine: Engine) -> None:
        """One pass, and the sweep when it is due: a replica under load has no quiet moment to wait for."""
        try:
            self._progress = not engine.idle and engine.step()
            if time.monotonic() >= self._next_sweep:
                self._next_sweep = time.monotonic() + _SWEEP_S
                engine.expire()
        except Exception as error:  # ends the rounds in the engine, never the thread
            log.exception("the engine failed in a way nobody foresaw; the rounds in it end")
            engine.abort(OutriderError(f"the engine failed: {error}"))

    def _take_commands(self) -> bool:
        """Run what is queued, and wait for more where that is worth it. False ends the thread."""
        empty_handed = not self._progress
        while True:
            pause = self._pause(empty_handed)
            try:
                command = self._commands.get(block=pause > 0, timeout=pause)
            except queue.Empty:
                return True
            if command is None:
                return False
            command()
            empty_handed = False

    def _pause(self, empty_handed: bool) -> float:
        """Seconds to wait for a command: long without anything to run, briefly for the sessions of the last pass."""
        engine = self._engine
        if empty_handed:
            return _SWEEP_S if engine is None or engine.idle else _RETRY_S
        return engine.patience() if engine is not None and self._progress else 0.0
