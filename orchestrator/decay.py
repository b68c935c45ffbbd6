"""Learned numbers that are forgotten. Age is counted in whatever unit the caller's ``now`` has."""

_SETTLED = 2.0
_FAR = 2.0
_ONE = 1.0 + 1e-9


class Level:
    """Mean of positive measurements, the recent ones first.

    A measurement more than twice or less than half the mean is put aside; only when the next is as far off on the
    same side has the world changed, and both replace what was known. So one delayed pass changes nothing and a real
    change is known after two. Old knowledge weighs little and gives way to a single measurement.
    """

    __slots__ = ("_aside", "_at", "_half_life", "_most", "_weight", "value")

    def __init__(self, half_life: float, most: float = 16.0) -> None:
        """``most`` is the weight, in measurements, beyond which old ones count less even when fresh."""
        self.value = 0.0
        """The mean; 0 before the first measurement."""
        self._half_life = half_life
        self._most = most
        self._weight = 0.0
        self._at = 0.0
        self._aside = (0.0, 0.0)

    def weight(self, now: float) -> float:
        """Measurements that the mean is worth now."""
        return float(self._weight * 0.5 ** ((now - self._at) / self._half_life))

    def note(self, value: float, now: float, weight: float = 1.0) -> None:
        """A measurement; ``weight`` below 1 where several are of one event."""
        kept = self.weight(now)
        if kept >= _SETTLED and self._far(value):
            value, weight = self._put_aside(value, weight)
            if weight <= _ONE:
                return
            kept = 0.0
        self._aside = (0.0, 0.0)
        kept = min(kept, self._most - weight)
        self.value = (self.value * kept + value * weight) / (kept + weight)
        self._weight, self._at = kept + weight, now

    def _put_aside(self, value: float, weight: float) -> tuple[float, float]:
        """The mean and the weight of what was measured far off on this side in a row."""
        mean, before = self._aside
        if before and (mean > self.value) is (value > self.value):
            value, weight = (mean * before + value * weight) / (before + weight), before + weight
        self._aside = (value, weight)
        return self._aside

    def _far(self, value: float) -> bool:
        return not self.value / _FAR <= value <= self.value * _FAR

    def blend(self, prior: float, strength: float, now: float) -> float:
        """The mean, drawn to ``prior`` as if that were ``strength`` measurements."""
        weight = self.weight(now)
        return (self.value * weight + prior * strength) / (weight + strength)


class Counts:
    """Hits and trials at numbered places, for shares that change with time."""

    __slots__ = ("_at", "_half_life", "_hits", "_trials")

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._at = 0.0
        self._hits: list[float] = []
        self._trials: list[float] = []

    def _fade(self, now: float) -> float:
        return float(0.5 ** ((now - self._at) / self._half_life))

    def add(self, hits: list[float], trials: list[float], now: float) -> None:
        """Count; both lists begin at place 0."""
        fade, self._at = self._fade(now), now
        missing = len(trials) - len(self._trials)
        self._hits += [0.0] * missing
        self._trials += [0.0] * missing
        self._hits = [count * fade for count in self._hits]
        self._trials = [count * fade for count in self._trials]
        for place, (hit, trial) in enumerate(zip(hits, trials)):
            self._hits[place] += hit
            self._trials[place] += trial

    def weaken(self, factor: float) -> None:
        """Let everything so far count that much less."""
        self._hits = [count * factor for count in self._hits]
        self._trials = [count * factor for count in self._trials]

    def share(self, place: int, prior: float, strength: float, now: float) -> float:
        """Hits over trials, drawn to ``prior`` as if that were ``strength`` trials."""
        if place >= len(self._trials):
            return prior
        fade = self._fade(now)
        return (self._hits[place] * fade + prior * strength) / (self._trials[place] * fade + strength)

    def trials(self, place: int, now: float) -> float:
        """Trials that count now."""
        return self._trials[place] * self._fade(now) if place < len(self._trials) else 0.0
