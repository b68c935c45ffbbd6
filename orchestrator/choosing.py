"""Which option to take: the best, but only for a gain that stands out over what is done already."""

from orchestrator.options import Option, Terms, ahead, lengths, plain, serial
from orchestrator.plans import Drafter
from orchestrator.regimes import Way
from orchestrator.rounds import PLAIN, Kind

_STOP, _START, _CHANGE = 1.01, 1.05, 1.03
"""Gains for which it stops speculating, starts it, and goes from one kind or length to another."""


def _block(terms: Terms, kind: Kind, k: int) -> Option:
    return ahead(terms, k) if kind[1] else serial(terms, k)


def _near_best(options: list[Option]) -> set[int]:
    """Lengths of the best option and its neighbours."""
    best = max(range(len(options)), key=lambda index: options[index].rate)
    return {option.draft_tokens for option in options[max(0, best - 1) : best + 2]}


def best_way(terms: Terms, present: Way) -> Option:
    """The target alone, or blocks one after another or looking ahead; lengths of the latter near the best of the former
    only, and the present one. There must be room for a block."""
    alone = plain(terms)
    kind, length = present
    k = min(length, terms.longest)
    options = [serial(terms, count) for count in lengths(terms.longest)]
    if terms.situation.look_ahead_available:
        options += [ahead(terms, count) for count in sorted(_near_best(options) | ({k} if k else set()))]
    best = max(options, key=lambda option: option.rate)
    if kind == PLAIN or not k:
        return best if best.rate > _START * alone.rate else alone
    now = next((option for option in options if (option.kind, option.draft_tokens) == (kind, k)), best)
    if alone.rate > _STOP * max(now.rate, best.rate):
        return alone
    return best if best.rate > _CHANGE * now.rate else now


def best_length(terms: Terms, kind: Kind, present: Way) -> Option:
    """The length that suits one answer where all do this kind of rounds; none where it is better off without."""
    alone = plain(terms)
    if kind[0] is Drafter.NONE:
        return alone
    options = [_block(terms, kind, count) for count in _candidates(terms, kind, present[1])]
    best = max(options, key=lambda option: option.rate)
    if alone.rate > _STOP * best.rate:
        return alone
    now = next((option for option in options if option.draft_tokens == present[1] and present[0] == kind), None)
    return now if now is not None and best.rate <= _CHANGE * now.rate else best


def _candidates(terms: Terms, kind: Kind, present: int) -> list[int]:
    every = list(lengths(terms.longest))
    if not kind[1]:
        return every
    near = _near_best([serial(terms, count) for count in every])
    return sorted(near | ({present} if 0 < present <= terms.longest else set()))
