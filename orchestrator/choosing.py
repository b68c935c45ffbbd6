"""Which option to take: the best, but only for a gain that stands out over what is done already."""

import bisect

from orchestrator.options import Option, Terms, ahead, lengths, plain, serial
from orchestrator.plans import Drafter
from orchestrator.regimes import Way
from orchestrator.rounds import PLAIN, Kind

_CURIOUS = 1.06
"""How much better than it looks an untried length is believed to be."""
_STOP, _START, _CHANGE, _VENTURE = 1.01, 1.05, 1.03, 1.1
"""Gains for which it stops speculating, starts it, goes from one kind or length to another, and starts what several
answers never tried."""


def _near_best(options: list[Option]) -> set[int]:
    """Lengths of the best option and its neighbours."""
    best = max(range(len(options)), key=lambda index: options[index].rate)
    return {option.draft_tokens for option in options[max(0, best - 1) : best + 2]}


def _near(terms: Terms, k: int) -> set[int]:
    """Lengths next to one."""
    every = list(lengths(terms.longest))
    index = bisect.bisect_left(every, k)
    return set(every[max(0, index - 1) : index + 2])


def _untried(terms: Terms, option: Option) -> bool:
    return terms.pool.rounds.weight(option.kind, option.draft_tokens, terms.costs.sessions, terms.pool.now) < 1


def _start(terms: Terms, kind: Kind) -> float:
    """Gain for which speculation starts: more where all answers of a load would try it for the first time."""
    sessions = terms.costs.sessions
    return _START if sessions == 1 or terms.pool.rounds.tried(kind, sessions) else _VENTURE


def _change(terms: Terms, present: Kind, kind: Kind) -> float:
    """Gain for which one way of speculating gives place to another: more where all answers of a load must follow."""
    return _CHANGE if kind == present or terms.costs.sessions == 1 else _VENTURE


def best_way(terms: Terms, present: Way) -> Option:
    """The target alone, or blocks one after another or looking ahead; lengths of the latter near the best of the former
    only, and the present one. Lengths next to the present one that were not tried lately are believed to be somewhat
    better than they look. There must be room for a block."""
    alone = plain(terms)
    kind, length = present
    k = min(length, terms.longest)
    near = _near(terms, k) if k else set()
    options = [serial(terms, count) for count in lengths(terms.longest)]
    if terms.situation.look_ahead_available:
        counts = sorted(_near_best(options) | (near if kind[1] else set()))
        options += [option for count in counts if (option := ahead(terms, count)) is not None]

    def worth(option: Option) -> float:
        curious = option.kind == kind and option.draft_tokens in near and _untried(terms, option)
        return option.rate * (_CURIOUS if curious else 1.0)

    best = max(options, key=worth)
    if kind == PLAIN or not k:
        return best if best.rate > _start(terms, best.kind) * alone.rate else alone
    now = next((option for option in options if (option.kind, option.draft_tokens) == (kind, k)), best)
    if alone.rate > _STOP * max(now.rate, best.rate):
        return alone
    return best if worth(best) > _change(terms, now.kind, best.kind) * now.rate else now


def best_length(terms: Terms, way: Way) -> Option:
    """The length that suits one answer where all go this way; none where it is better off without."""
    alone = plain(terms)
    kind, length = way
    if kind[0] is Drafter.NONE:
        return alone
    k = min(length, terms.longest)
    options = {count: serial(terms, count) for count in {*lengths(terms.longest), k}}
    if kind[1]:
        near = _near_best(list(options.values())) | {k}
        options = {count: ahead(terms, count) or options[count] for count in near}
    best = max(options.values(), key=lambda option: option.rate)
    if alone.rate > _STOP * best.rate:
        return alone
    return best if best.rate > _CHANGE * options[k].rate else options[k]
