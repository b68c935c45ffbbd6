"""What the Kubernetes autoscaler makes of numbers: pure functions of times, values and sizes.

The algorithm is that of https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ ("Algorithm
details", "Configurable scaling behavior"), in the order of ``pkg/controller/podautoscaler/horizontal.go``: the largest
proposal of all metrics, the stabilisation windows, then the policies, then the bounds. Values reach it in thousandths,
as KEDA and prometheus-adapter round them. It knows neither Prometheus nor YAML.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SYNC_S = 15
"""--horizontal-pod-autoscaler-sync-period"""
TOLERANCE = 0.1
"""--horizontal-pod-autoscaler-tolerance"""


@dataclass(frozen=True, slots=True)
class Policy:
    """At most ``value`` pods, or percent of the pods, more or fewer within ``period_s``."""

    kind: str
    value: int
    period_s: int


@dataclass(frozen=True, slots=True)
class Direction:
    """How a pool may grow, or shrink: ``select`` is ``Max``, ``Min`` or ``Disabled``, ``window_s`` stabilises."""

    window_s: int
    policies: tuple[Policy, ...]
    select: str = "Max"


@dataclass(frozen=True, slots=True)
class Metric:
    """A recording rule and what it is compared with, in thousandths. The pool is to grow in proportion (``Value``)."""

    rule: str
    target_milli: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """All that a manifest says of one pool."""

    deployment: str
    least: int
    most: int
    metrics: tuple[Metric, ...]
    up: Direction
    down: Direction


def proposal(metric: Metric, value: float, current: int, ready: int) -> int:
    """Pods that one metric asks for. Of the pods only those that are ready made the value, so only they are scaled."""
    ratio = int(value * 1000) / metric.target_milli
    return current if 1 - TOLERANCE <= ratio <= 1 + TOLERANCE else math.ceil(ratio * ready)


def wanted(scaling: Scaling, values: Mapping[str, float | None], current: int, ready: int) -> int | None:
    """Pods that all metrics together ask for, None to leave the pool alone: nothing is known, or a part is unknown and
    the rest would shrink it."""
    known = {metric: values.get(metric.rule) for metric in scaling.metrics}
    proposals = [proposal(metric, value, current, ready) for metric, value in known.items() if value is not None]
    if not proposals or (len(proposals) < len(known) and max(proposals) < current):
        return None
    return max(proposals)


Event = tuple[float, int]
"""When, and how many pods."""


def _within(events: Sequence[Event], now: float, seconds: float) -> list[int]:
    return [pods for when, pods in events if when > now - seconds]


def _limit(direction: Direction, current: int, events: Sequence[Event], now: float, sign: int) -> int:
    """Size that the policies allow; ``sign`` is 1 for growing, -1 for shrinking."""
    if direction.select == "Disabled":
        return current
    allowed = []
    for policy in direction.policies:
        start = current - sign * sum(_within(events, now, policy.period_s))
        change = policy.value if policy.kind == "Pods" else start * policy.value / 100
        allowed.append(math.ceil(start + change) if sign > 0 else int(start - change))
    widest: Callable[[Sequence[int]], int] = max if (sign > 0) == (direction.select == "Max") else min
    return max(current, widest(allowed)) if sign > 0 else min(current, widest(allowed))


@dataclass(slots=True)
class Autoscaler:
    """Owner of what one pool's autoscaler remembers: what it recommended, and how it has changed the size."""

    scaling: Scaling
    recommended: list[Event] = field(default_factory=list)
    grown: list[Event] = field(default_factory=list)
    shrunk: list[Event] = field(default_factory=list)

    def size(self, now: float, values: Mapping[str, float | None], current: int, ready: int) -> int:
        """The size from now on."""
        if not self.scaling.least <= current <= self.scaling.most:
            return min(max(current, self.scaling.least), self.scaling.most)
        if not self.recommended:
            self.recommended.append((now, current))
        desired = wanted(self.scaling, values, current, ready)
        if desired is None:
            return current
        size = self._limited(now, self._stabilised(now, desired, current), current)
        if size != current:
            (self.grown if size > current else self.shrunk).append((now, abs(size - current)))
        return size

    def _stabilised(self, now: float, desired: int, current: int) -> int:
        """The present size, brought between the lowest recommendation of one window and the highest of the other."""
        at_least = min([desired, *_within(self.recommended, now, self.scaling.up.window_s)])
        at_most = max([desired, *_within(self.recommended, now, self.scaling.down.window_s)])
        self.recommended.append((now, desired))
        return min(max(current, at_least), at_most)

    def _limited(self, now: float, desired: int, current: int) -> int:
        if desired > current:
            return min(desired, self.scaling.most, _limit(self.scaling.up, current, self.grown, now, 1))
        if desired < current:
            return max(desired, self.scaling.least, _limit(self.scaling.down, current, self.shrunk, now, -1))
        return desired
