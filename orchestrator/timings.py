"""Measured costs of one pair: passes by rows, round trips, and what it costs the draft to read. It does not know plans
beyond what they asked for, and has no clock: ``now`` is the pool's count of tokens."""

from orchestrator.decay import Level
from orchestrator.plans import Observation
from outrider.pass_times import PassTimes
from outrider.throughput import Costs, Seconds

CAUGHT_UP = 8
"""Tokens that a draft reads within the pass that makes its first token, at no cost that counts."""
_HALF_LIFE = 256.0
_READING_HALF_LIFE = 4096.0
_REFRESH, _JUMP = 8, 1.5
"""Measurements after which the curves are made anew, and times their value for which a slow draft does it at once."""
_LEAP, _LEAP_WEIGHT = 4.0, 8.0
"""Times the usual time of a draft's pass that is no noise, and how many others such a pass counts as: to believe in a
draft that got slow costs more with every round."""
_EXACT_ROWS = 8
_FORGOTTEN = 0.1
"""Weight below which a size is left out of the curve, so that a bad day of one size is not believed for ever."""
_PLAIN_S = 0.02
_DRAFT_SHARE, _READING_SHARE = 0.3, 0.1
"""Of the target's time, what a draft is taken to need for a token and for reading one before it was measured."""
_RTT_S, _UNKNOWN = 0.001, 1e-9
"""A round trip before any was measured; what was measured once stays known, however long ago."""


class PassCurve:
    """Measured seconds of passes: a point for each small number of rows, and for each power of two above."""

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[Level, Level]] = {}

    def note(self, rows: int, seconds: float, now: float, weight: float = 1.0) -> None:
        """A pass."""
        size = rows if rows <= _EXACT_ROWS else _EXACT_ROWS + rows.bit_length()
        levels = self._sizes.setdefault(size, (Level(_HALF_LIFE), Level(_HALF_LIFE)))
        for level, value in zip(levels, (rows, seconds)):
            level.note(value, now, weight)

    @property
    def known(self) -> bool:
        """Whether any pass was measured."""
        return bool(self._sizes)

    def _lately(self, now: float) -> list[tuple[Level, Level]]:
        """Sizes from the smallest that were measured not too long ago; all when none was."""
        known = [levels for _, levels in sorted(self._sizes.items())]
        return [levels for levels in known if levels[1].weight(now) > _FORGOTTEN] or known

    def times(self, now: float) -> PassTimes:
        """The curve; where one size is known only, twice its rows are taken to cost a fifth more."""
        points, most = [], 0.0
        for rows, seconds in self._lately(now):
            most = max(most, seconds.value * 1000)
            points.append((round(rows.value), most))
        if len(points) == 1:
            points.append((points[0][0] * 2, most * 1.2))
        return PassTimes(tuple(points))


class Timings:
    """Owner of the measured costs."""

    def __init__(self) -> None:
        self._target, self._draft = PassCurve(), PassCurve()
        self._rtt_target, self._rtt_draft = Level(_HALF_LIFE), Level(_HALF_LIFE)
        self._reading = Level(_READING_HALF_LIFE)
        self._unexplained: tuple[int, float] | None = None
        self._curves: tuple[Seconds, Seconds, float, float] | None = None
        self._noted = self._built = 0

    @property
    def draft_known(self) -> bool:
        """Whether the draft model was ever timed."""
        return self._draft.known

    def costs(self, sessions: int, now: float) -> Costs:
        """What is measured, and guesses where nothing was; not made anew for every measurement once there are many."""
        if self._curves is None or self._noted - self._built > min(_REFRESH, self._built // _REFRESH):
            self._curves, self._built = self._measured(now), self._noted
        draft_s, target_s, rtt_draft_s, rtt_target_s = self._curves
        return Costs(draft_s, target_s, rtt_draft_s, rtt_target_s, sessions)

    def _measured(self, now: float) -> tuple[Seconds, Seconds, float, float]:
        """Passes of draft and target by rows, and the round trips to them."""
        target = self._target.times(now) if self._target.known else PassTimes(((1, _PLAIN_S * 1000),))
        draft = self._draft.times(now) if self._draft.known else PassTimes(((1, target.points[0][1] * _DRAFT_SHARE),))
        most = draft.points[-1][0] if len(draft.points) > 2 else draft.points[0][0]
        beyond = draft.seconds(most) / target.seconds(most)

        def draft_s(rows: int) -> float:
            """Beyond what was measured the draft is taken to grow as the target does."""
            return draft.seconds(rows) if rows <= most else beyond * target.seconds(rows)

        rtt_draft, rtt_target = (level.blend(_RTT_S, _UNKNOWN, now) for level in (self._rtt_draft, self._rtt_target))
        return draft_s, target.seconds, rtt_draft, rtt_target

    def reading_s(self, behind: int, costs: Costs, now: float) -> float:
        """Seconds in which the draft reads so many tokens before it can guess."""
        if behind <= CAUGHT_UP:
            return 0.0
        return self._reading.blend(_READING_SHARE * costs.target_s(behind) / behind, 0.1, now) * behind

    def note_target(self, seen: Observation, now: float) -> None:
        """A round at the target."""
        if seen.target_passes == 1 and seen.target_batch_rows and seen.target_forward_s > 0:
            self._target.note(seen.target_batch_rows, seen.target_forward_s, now)
        if not seen.follows:
            trip = seen.verify_s - seen.target_forward_s - seen.target_queue_s
            self._rtt_target.note(max(trip, 1e-5), now)
        self._noted += 1

    def note_draft(self, seen: Observation, behind: int, now: float, by_itself: bool) -> None:
        """A round with the draft model, which had ``behind`` tokens to read for it; unless ``by_itself``, its passes
        held those of others too."""
        if seen.draft_passes:
            if by_itself:
                self._note_passes(seen, behind, now)
            if not seen.plan.look_ahead:  # else it also waits for the pass that it interrupts
                trip = seen.propose_s - seen.draft_forward_s - seen.draft_queue_s
                self._rtt_draft.note(max(trip, 1e-5), now)
        elif not seen.proposed:
            self._note_failure(seen, now)
        self._noted += 1

    def _note_passes(self, seen: Observation, behind: int, now: float) -> None:
        """A proposal's passes; those that read a long text tell of that, and little of the rest."""
        rows, each = max(1, seen.draft_batch_rows), seen.draft_forward_s / seen.draft_passes
        costs = self.costs(1, now)
        if behind <= CAUGHT_UP:
            leap = each > _LEAP * costs.draft_s(rows)
            self._draft.note(rows, each, now, weight=_LEAP_WEIGHT if leap else 1.0)
            self._explain(now)
            if each > _JUMP * costs.draft_s(rows):
                self._curves = None
        elif self.draft_known:
            self._note_reading(behind, seen.draft_forward_s - max(1, seen.proposed) * costs.draft_s(rows), now)
        else:
            guessed = (seen.draft_forward_s - self.reading_s(behind, costs, now)) / seen.draft_passes
            self._draft.note(1, max(guessed, each * _DRAFT_SHARE), now, weight=0.25)
            self._unexplained = (behind, each)

    def _note_reading(self, behind: int, seconds: float, now: float) -> None:
        self._reading.note(max(seconds / behind, 1e-6), now)

    def _explain(self, now: float) -> None:
        """What the very first proposal took beyond its tokens was reading."""
        if self._unexplained is not None:
            behind, took = self._unexplained
            self._note_reading(behind, took - self.costs(1, now).draft_s(1), now)
            self._unexplained = None

    def _note_failure(self, seen: Observation, now: float) -> None:
        """Asked, and nothing came: that time is what such a token costs, if it is longer than usual."""
        each = seen.propose_s / max(1, seen.plan.draft_tokens)
        if each > self.costs(1, now).draft_s(1):
            self._draft.note(1, each, now)
            self._curves = None
