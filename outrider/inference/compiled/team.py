"""How threads that run one pass share its work: equal shares, and a barrier between stages.

Their counters are an array of int64, on cache lines of their own. It does not know what the work is.
"""

from typing import Any

from outrider.inference.compiled import artefacts
from outrider.inference.compiled.intrinsics import fetch_add, give_core_away, load_shared, store_shared

ARRIVED, GENERATION, NEXT_ITEM = 0, 16, 32
"""Where the counters lie. The items of layer i are counted at NEXT_ITEM + i * COUNTER_STEP."""
COUNTER_STEP = 8

_SPINS = 2000
_jit: Any = artefacts.jit


@_jit
def meet(team: Any, members: Any) -> None:
    """Wait until every member of the team is here. A member that waits long gives its core away."""
    if members == 1:
        return
    base = team.ctypes.data
    generation = load_shared(base + GENERATION * 8)
    if fetch_add(base + ARRIVED * 8, 1) == members - 1:
        store_shared(base + ARRIVED * 8, 0)
        store_shared(base + GENERATION * 8, generation + 1)
        return
    spins = 0
    while load_shared(base + GENERATION * 8) == generation:
        spins += 1
        if spins > _SPINS:
            give_core_away()


@_jit
def share(count: Any, member: Any, members: Any) -> Any:
    """First and last + 1 of the items that a member does."""
    return count * member // members, count * (member + 1) // members
