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
_APART = 1.1
"""Gain for which one of several answers takes another length than the others: equal blocks share their passes."""


def _looking_ahead(terms: Terms, start: Option, also: set[int]) -> list[Option]:
    """Ways of looking ahead: from the length of ``start`` as far as they get better, up and down, and ``also`` others.

    What is too late for long blocks may be in time for short ones, so that the best lengths can be far apart.
    """
    every = list(lengths(terms.longest))
    begin = bisect.bisect_left(every, start.draft_tokens)
    found = {count: ahead(terms, count) for count in {*also, every[begin]}}
    for way in (every[begin + 1 :], every[:begin][::-1]):
        last = found[every[begin]]
        for count in way:
            found[count] = option = found.get(count) or ahead(terms, count)
            if last is not None and (option is None or option.rate <= last.rate):
                break
            last = option
    return [option for option in found.values() if option is not None]


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
    """Gain for which one way of speculating gives place to another: more for one that was never tried, and where all
    answers of a load must follow."""
    known = terms.costs.sessions == 1 and terms.pool.rounds.tried(kind, 1)
    return _CHANGE if kind == present or known else _VENTURE


def best_way(terms: Terms, present: Way) -> Option:
    """The target alone, or blocks one after another or looking ahead; lengths of the latter found from the best of the
    former, and those near the present one. Lengths next to the present one that were not tried lately are believed to
    be somewhat better than they look. There must be room for a block."""
    alone = plain(terms)
    kind, length = present
    k = min(length, terms.longest)
    near = _near(terms, k) if k else set()
    options = [serial(terms, count) for count in lengths(terms.longest)]
    if terms.situation.look_ahead_available:
        options += _looking_ahead(terms, max(options, key=lambda option: option.rate), near if kind[1] else set())

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
    best = max(options.values(), key=lambda option: option.rate)
    if kind[1]:
        found = {option.draft_tokens: option for option in _looking_ahead(terms, best, {k})}
        options = {k: options[k]} | (found or options)
        best = max(options.values(), key=lambda option: option.rate)
    if alone.rate > _STOP * best.rate:
        return alone
    return best if best.rate > _APART * options[k].rate else options[k]
