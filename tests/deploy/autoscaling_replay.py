"""A load that comes and goes, two pools with their autoscalers, and what was recorded in place of a cluster.

Recordings are of pools of a few sizes. At each step the numbers are those that a pool of the present size had at this
moment of the load; of the recorded sizes the largest that is not above it counts, so a larger pool looks no better than
it was ever seen. A pool's new size is seen a minute late, because the rules look back for so long: no step is taken on
relief that real numbers would not show yet. It does not know what is good: the tests do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.deploy.autoscaling import SYNC_S, Autoscaler, Scaling
from tests.deploy.autoscaling_prometheus import Values
from tests.deploy.autoscaling_recorded import INTERVAL_S, Recording

LATE_S = 60
"""Window of the recording rules."""
Sizes = tuple[int, int]
"""Targets and drafts."""


@dataclass(frozen=True, slots=True)
class Signals:
    """A recording, and what the rules made of it."""

    recording: Recording
    values: Mapping[str, Values]

    def at(self, phase: str, elapsed_s: int) -> dict[str, float | None]:
        """Values by rule. A phase that lasts longer than the recorded one repeats what was there when nothing of the
        phase before it was in a window any more."""
        recorded = self.recording.phase(phase)
        length = recorded.end_s - recorded.begin_s
        begin = LATE_S + INTERVAL_S
        offset = elapsed_s if elapsed_s < length else begin + (elapsed_s - begin) % (length - begin)
        step = (recorded.begin_s + offset) // INTERVAL_S
        return {rule: values[step] for rule, values in self.values.items()}


@dataclass(slots=True)
class Pool:
    """Pods by the moment from which they are ready."""

    autoscaler: Autoscaler
    start_s: int
    pods: list[int]

    def ready(self, now: int) -> int:
        """Those that serve."""
        return sum(since <= now for since in self.pods)

    def sync(self, now: int, values: Mapping[str, float | None]) -> None:
        """What happens every 15 s. The last ones to come go first, as those do that are not ready."""
        size = self.autoscaler.size(now, values, len(self.pods), self.ready(now))
        self.pods = [*self.pods, *[now + self.start_s] * (size - len(self.pods))][:size]


@dataclass(frozen=True, slots=True)
class Moment:
    """What there is at one step, before it is taken; ``values`` by rule."""

    now: int
    phase: str
    sizes: Sizes
    values: Mapping[str, float | None]


@dataclass(slots=True)
class Replay:
    """Owner of two pools. ``blind`` names rules that have no value, ``start_s`` is how long a pod takes to be ready."""

    signals: Mapping[Sizes, Signals]
    target: Scaling
    draft: Scaling
    start_s: int = 30
    blind: frozenset[str] = frozenset()
    begin: Sizes | None = None
    moments: list[Moment] = field(default_factory=list)

    def run(self, script: Sequence[tuple[str, int]]) -> list[Moment]:
        """All steps of a load: phases, each with its seconds."""
        pools = [self._pool(scaling, place) for place, scaling in enumerate((self.target, self.draft))]
        seen: list[Sizes] = []
        now = 0
        for phase, seconds in script:
            for elapsed in range(0, seconds, SYNC_S):
                seen.append((pools[0].ready(now), pools[1].ready(now)))
                values = self._values(seen[max(0, len(seen) - 1 - LATE_S // SYNC_S)], phase, elapsed)
                self.moments.append(Moment(now, phase, (len(pools[0].pods), len(pools[1].pods)), values))
                for pool in pools:
                    pool.sync(now, values)
                now += SYNC_S
        return self.moments

    def _pool(self, scaling: Scaling, place: int) -> Pool:
        pods = self.begin[place] if self.begin else scaling.least
        return Pool(Autoscaler(scaling), self.start_s, [0] * pods)

    def _values(self, sizes: Sizes, phase: str, elapsed: int) -> dict[str, float | None]:
        known = [each for each in self.signals if each[0] <= sizes[0] and each[1] <= sizes[1]]
        values = self.signals[max(known, default=min(self.signals))].at(phase, elapsed)
        return {rule: None if rule in self.blind else value for rule, value in values.items()}
