"""A claim names what is believed to be cached and all that follows; misses correct the belief until a claim holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.caches import CacheView, resending
from orchestrator.peers import Proposal
from outrider.errors import ProtocolViolation, Unavailable
from outrider.tokens import CacheMiss, Claim, TokenLog, check_claim

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=12)
DONE = Proposal((), 0)


@given(TOKENS, st.integers(0, 20))
def test_a_claim_is_the_whole_session_and_sends_at_least_one_token(tokens: list[int], believed: int) -> None:
    log = TokenLog(tokens)
    claim = CacheView(believed).claim(log)
    assert claim.prefix_len <= believed
    assert (*tokens[: claim.prefix_len], *claim.tokens) == tuple(tokens)
    assert claim.tokens
    assert claim.prefix_digest == TokenLog(tokens[: claim.prefix_len]).digest(claim.prefix_len)


@given(TOKENS, TOKENS, st.integers(0, 20))
async def test_whatever_a_replica_has_and_is_believed_to_have_it_ends_with_the_session(
    tokens: list[int], cached: list[int], believed: int
) -> None:
    """A replica by the rule, which may hold another text: a miss or two at most, and then exactly these tokens."""
    cache, asked = TokenLog(cached), 0

    async def send(claim: Claim) -> Proposal | CacheMiss:
        nonlocal asked
        asked += 1
        miss = check_claim(claim, cache)
        if miss is None:
            cache.truncate(claim.prefix_len)
            cache.extend(claim.tokens)
        return miss or DONE

    assert await resending(CacheView(believed), TokenLog(tokens), send) is DONE
    assert cache.tokens == tokens
    assert asked <= 3


async def test_a_cache_that_shrinks_under_every_offer_is_sent_everything_at_last() -> None:
    claims: list[Claim] = []

    async def send(claim: Claim) -> Proposal | CacheMiss:
        claims.append(claim)
        return CacheMiss(claim.prefix_len - 1) if claim.prefix_len else DONE

    assert await resending(CacheView(5), TokenLog(range(8)), send) is DONE
    assert [claim.prefix_len for claim in claims] == [5, 4, 0]


async def test_a_replica_that_misses_the_empty_prefix_breaks_the_protocol() -> None:
    async def send(claim: Claim) -> Proposal | CacheMiss:
        return CacheMiss(0)

    with pytest.raises(ProtocolViolation, match="every prefix"):
        await resending(CacheView(4), TokenLog(range(8)), send)


async def test_trouble_on_the_way_changes_no_belief() -> None:
    async def send(claim: Claim) -> Proposal | CacheMiss:
        raise Unavailable("gone")

    view = CacheView(4)
    with pytest.raises(Unavailable):
        await resending(view, TokenLog(range(8)), send)
    assert view.length == 4
