"""Probes are made where they can be paid for and teach something, cost the pool's budget, and stop while one is out."""

import pytest

from orchestrator.acceptance import through
from orchestrator.estimates import PoolEstimates
from orchestrator.options import Option, Terms, plain, serial
from orchestrator.plans import Drafter, Observation, Plan, Situation
from orchestrator.probes import LOOK_TOKENS, Probes
from orchestrator.rounds import PLAIN
from outrider.throughput import Costs


def terms(
    pool: PoolEstimates, draft_s: float = 0.002, sessions: int = 1, behind: int = 1, available: bool = True
) -> Terms:
    """A target of 10 ms up to 100 rows, no round trips, draft tokens right with a chance of 0.5."""
    costs = Costs(lambda rows: draft_s, lambda rows: 0.0001 * max(100, rows), sessions=sessions)
    situation = Situation(100, draft_available=available, sessions=sessions, draft_behind=behind)
    chances = (0.5,) * 17
    return Terms(pool, situation, costs, chances, through(chances), 100)


def probe(probes: Probes, there: Terms, emitted: int = 50) -> Option | None:
    return probes.block(there, plain(there), emitted)


def judged(accepted: int, took_s: float) -> Observation:
    return Observation(
        plan=Plan(Drafter.MODEL, 1, probe=True), proposed=1, accepted=accepted, emitted=accepted + 1, verify_s=took_s
    )


def test_the_first_block_of_a_pool_is_one_token() -> None:
    option = probe(Probes(PoolEstimates()), terms(PoolEstimates()))
    assert option is not None
    assert (option.drafter, option.draft_tokens, option.fanout) == (Drafter.MODEL, 1, ())


def test_one_probe_of_a_pool_is_out_at_a_time() -> None:
    pool = PoolEstimates()
    mine, other = Probes(pool), Probes(pool)
    assert probe(mine, terms(pool)) is not None
    assert probe(other, terms(pool)) is None
    mine.came_back(judged(1, 0.012))
    assert probe(other, terms(pool)) is not None


def test_nothing_is_asked_of_a_draft_that_is_away() -> None:
    pool = PoolEstimates()
    assert probe(Probes(pool), terms(pool, available=False)) is None
    assert probe(Probes(pool), terms(pool)) is not None, "and nothing was paid for it"


def test_several_answers_first_learn_what_the_target_alone_costs() -> None:
    pool = PoolEstimates()
    assert probe(Probes(pool), terms(pool, sessions=4)) is None
    for _ in range(100):
        pool.rounds.note(PLAIN, 0, 4, 0.01, 0.01, 0.0)
    assert probe(Probes(pool), terms(pool, sessions=4)) is not None


@pytest.mark.parametrize("trouble", ["slow", "behind"])
def test_what_is_too_dear_is_saved_for(trouble: str) -> None:
    """A draft of a second a token, or with 20 000 tokens to read: neither can be paid from the start."""
    pool = PoolEstimates()
    there = terms(pool, draft_s=1.0) if trouble == "slow" else terms(pool, behind=20_000)
    assert probe(Probes(pool), there) is None
    for _ in range(200_000):
        pool.budget.earn(1.0)
    assert probe(Probes(pool), there) is not None


def test_a_look_at_the_target_alone_is_paid_for_shared_and_ends() -> None:
    pool = PoolEstimates()
    there = terms(pool)
    asked = (serial(there, 1), plain(there), 1)
    assert Probes(pool).look_at_plain(*asked)
    assert Probes(pool).look_at_plain(*asked), "all answers of the pool take part"
    pool.now += LOOK_TOKENS
    assert not Probes(pool).look_at_plain(*asked), "over, and the next one waits"


def test_what_is_known_is_not_looked_at() -> None:
    pool = PoolEstimates()
    for _ in range(16):
        pool.rounds.note(PLAIN, 0, 1, 0.01, 0.01, 0.0)
    there = terms(pool)
    assert not Probes(pool).look_at_plain(serial(there, 1), plain(there), 1)
