"""What each kind of fault does to the system, and how it ends. After ``mend`` the place is as before, or will be by
itself. They know processes and proxies, not load."""

import signal
from typing import Protocol

from bench.proxy import Side
from bench.shape import Shape
from outrider.wire import facts_to_pb
from tests.chaos.liar import INFO, SEED
from tests.chaos.schedule import Kind, Place, Planned
from tests.chaos.system import SMALL_KV_BYTES, System

_DELAY = Shape(delay_s=0.03, jitter_s=0.02)


class Fault(Protocol):
    """Something that goes wrong for a while."""

    async def inject(self, system: System) -> None:
        """Let it happen."""

    async def mend(self, system: System) -> None:
        """Undo it."""


class Kill:
    """SIGKILL, and a new process later."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def inject(self, system: System) -> None:
        await system.boxes[self._place].kill()

    async def mend(self, system: System) -> None:
        await system.boxes[self._place].start()


class Stop:
    """The process stands still."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def inject(self, system: System) -> None:
        system.boxes[self._place].signal(signal.SIGSTOP)

    async def mend(self, system: System) -> None:
        system.boxes[self._place].signal(signal.SIGCONT)


class Terminate:
    """SIGTERM, as in a rolling update, and a new process when the old one has ended."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def inject(self, system: System) -> None:
        await system.boxes[self._place].terminate()

    async def mend(self, system: System) -> None:
        await system.boxes[self._place].start()


class RedisFreeze:
    """It keeps its connections and answers nothing."""

    async def inject(self, system: System) -> None:
        await system.redis.server.freeze()

    async def mend(self, system: System) -> None:
        system.redis.server.thaw()


class RedisRestart:
    """It is gone, and comes back with nothing in it."""

    async def inject(self, system: System) -> None:
        await system.redis.stop()

    async def mend(self, system: System) -> None:
        await system.redis.start()


class RedisFlush:
    """It forgets everything."""

    async def inject(self, system: System) -> None:
        async with system.redis.server.client() as client:
            await client.flushall()

    async def mend(self, system: System) -> None:
        """It fills again by itself."""


class Delay:
    """A long way to the place."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def inject(self, system: System) -> None:
        system.proxy(self._place).reshape(_DELAY)

    async def mend(self, system: System) -> None:
        system.proxy(self._place).reshape(Shape())


class Cut:
    """All connections are reset."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def inject(self, system: System) -> None:
        system.proxy(self._place).cut()

    async def mend(self, system: System) -> None:
        """New ones can be made at once."""


class HalfOpen:
    """One side sees its connections reset; the other believes in them."""

    def __init__(self, place: Place, gone: Side) -> None:
        self._place = place
        self._gone = gone

    async def inject(self, system: System) -> None:
        system.proxy(self._place).half_open(self._gone)

    async def mend(self, system: System) -> None:
        """New ones can be made at once."""


class BlackHole:
    """Nothing passes, and nobody is told."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def inject(self, system: System) -> None:
        system.proxy(self._place).freeze()

    async def mend(self, system: System) -> None:
        system.proxy(self._place).thaw()


class Liar:
    """The draft is replaced by a process that lies."""

    def __init__(self, place: Place, seed: int) -> None:
        self._place = place
        self._seed = seed

    async def inject(self, system: System) -> None:
        facts = await system.facts(self._place)
        box = system.boxes[self._place]
        await box.kill()
        variables = {INFO: facts_to_pb(facts).SerializeToString().hex(), SEED: str(self._seed)}
        await box.start("tests.chaos.liar", **variables)

    async def mend(self, system: System) -> None:
        box = system.boxes[self._place]
        await box.kill()
        await box.start()


class SmallKV:
    """The target is replaced by one whose cache holds a few sessions only."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def inject(self, system: System) -> None:
        box = system.boxes[self._place]
        await box.terminate()
        await box.start(OUTRIDER_KV_BYTES=SMALL_KV_BYTES)

    async def mend(self, system: System) -> None:
        box = system.boxes[self._place]
        await box.terminate()
        await box.start()


def fault_of(planned: Planned) -> Fault:
    """What was planned, as something that can happen."""
    place = planned.place
    made: dict[Kind, Fault] = {
        Kind.KILL: Kill(place),
        Kind.STOP: Stop(place),
        Kind.TERMINATE: Terminate(place),
        Kind.REDIS_FREEZE: RedisFreeze(),
        Kind.REDIS_RESTART: RedisRestart(),
        Kind.REDIS_FLUSH: RedisFlush(),
        Kind.DELAY: Delay(place),
        Kind.CUT: Cut(place),
        Kind.CALLER_GONE: HalfOpen(place, Side.CLIENT),
        Kind.CALLEE_GONE: HalfOpen(place, Side.UPSTREAM),
        Kind.BLACK_HOLE: BlackHole(place),
        Kind.LIAR: Liar(place, planned.number),
        Kind.SMALL_KV: SmallKV(place),
    }
    return made[planned.kind]
