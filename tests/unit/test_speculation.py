"""The controller, tried in simulated worlds (``speculation_simulator``) and on single decisions.

Rates compare it with the target alone and with fixed blocks under the same luck, token by token; all seeds are fixed.
"""

from collections.abc import Callable

import pytest

from orchestrator.estimates import PoolEstimates
from orchestrator.plans import Drafter, Observation, Plan, Situation
from orchestrator.speculation import Controller, Mode, Speculation
from outrider.pass_times import PassTimes
from tests.unit.speculation_simulator import Fixed, Outcome, World, simulate

TARGET_S = 0.02
TWO_CORES = PassTimes(((1, 9.4), (5, 11.6), (16, 26.0), (64, 84.0))).seconds
FIXED = (1, 2, 3, 4, 6, 8)
BEGUN = 32
"""Tokens of each answer after which rates are taken: some ten rounds."""


def flat(rows: int) -> float:
    """A GPU with room: 64 rows cost a sixth more than one."""
    return TARGET_S * (1 + 0.0025 * (rows - 1))


def steep(rows: int) -> float:
    """Each row costs: 16 rows twice as much as one."""
    return TARGET_S * (0.93 + 0.07 * rows + 0.07 * max(0, rows - 16))


def world(
    chance: float | Callable[[int, int], float],
    draft: float = 0.1,
    target_s: Callable[[int], float] = flat,
    sessions: int = 1,
    rtt_s: float = 0.0005,
    tokens: int = 400,
    look_ahead: bool = True,
) -> World:
    """A world whose draft costs ``draft`` of the target's pass, each on its own device, with 5 % of noise."""
    even = chance if callable(chance) else lambda session, position: chance
    return World(
        chance=even,
        draft_s=lambda rows, now: TARGET_S * draft * (1 + 0.01 * (rows - 1)),
        target_s=target_s,
        rtt_draft_s=rtt_s,
        rtt_target_s=rtt_s,
        sessions=sessions,
        tokens=tokens,
        noise=0.05,
        look_ahead=look_ahead,
    )


def two_cores(
    chance: float | Callable[[int, int], float],
    sessions: int = 1,
    tokens: int = 256,
    draft_s: Callable[[int, float], float] = lambda rows, now: 0.0034 + 0.0001 * rows,
) -> World:
    """The default pair on one small machine, draft and target in each other's way, with 10 % of noise."""
    even = chance if callable(chance) else lambda session, position: chance
    return World(
        chance=even,
        draft_s=draft_s,
        target_s=TWO_CORES,
        rtt_draft_s=0.0007,
        rtt_target_s=0.0007,
        sessions=sessions,
        tokens=tokens,
        noise=0.1,
        shared_cores=0.6,
    )


def automatic(there: World, pool: PoolEstimates, seed: int = 1) -> Outcome:
    return simulate(there, lambda index: Controller(Speculation(), pool), seed)


def fixed(there: World, k: int, seed: int = 1) -> Outcome:
    return simulate(there, lambda index: Fixed(k), seed)


def compare(there: World, seed: int = 1, warm: bool = True) -> tuple[float, float]:
    """AUTO over the target alone, and over the best fixed block, after the first rounds; ``warm``: of answers that
    are not the pool's first."""
    pool = PoolEstimates()
    if warm:
        automatic(there, pool, seed + 50)
    rate = automatic(there, pool, seed).rate(BEGUN)
    best = max(fixed(there, k, seed).rate(BEGUN) for k in FIXED)
    return rate / fixed(there, 0, seed).rate(BEGUN), rate / best
