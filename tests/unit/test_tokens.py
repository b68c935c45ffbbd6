"""A token log knows the digest of each prefix; a claim is judged by it alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.hashing import MASK64, mix64
from outrider.tokens import EMPTY_DIGEST, CacheMiss, Claim, TokenLog, chain, check_claim

token_lists = st.lists(st.integers(0, 2**31 - 1), max_size=40)


def test_the_digest_of_nothing_is_zero() -> None:
    assert TokenLog().digest(0) == EMPTY_DIGEST == 0


def test_digests_are_pinned() -> None:
    """Part of the protocol version: two replicas of different builds must agree."""
    log = TokenLog([0, 49151, 2**31 - 1])
    pinned = [0, 0xE220A8397B1DCDAF, 0xCF8EEDD6707040FF, 0x1E2771BD08EE197E]
    assert [log.digest(n) for n in range(4)] == pinned


@given(token_lists, token_lists)
def test_a_digest_is_a_function_of_its_prefix_alone(prefix: list[int], rest: list[int]) -> None:
    assert TokenLog([*prefix, *rest]).digest(len(prefix)) == TokenLog(prefix).digest(len(prefix))


@given(token_lists, token_lists)
def test_different_lists_have_different_digests(first: list[int], second: list[int]) -> None:
    same = TokenLog(first).digest(len(first)) == TokenLog(second).digest(len(second))
    assert same == (first == second)


@given(token_lists, token_lists, st.data())
def test_cutting_and_extending_equals_a_fresh_log(tokens: list[int], more: list[int], data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(tokens)))
    log = TokenLog(tokens)
    log.truncate(length)
    log.extend(more)
    fresh = TokenLog([*tokens[:length], *more])
    assert log.tokens == fresh.tokens
    assert [log.digest(n) for n in range(len(log) + 1)] == [fresh.digest(n) for n in range(len(fresh) + 1)]


@given(token_lists, st.data())
def test_since_gives_the_tokens_from_a_position(tokens: list[int], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(tokens)))
    assert TokenLog(tokens).since(position) == tokens[position:]


@pytest.mark.parametrize("length", [-1, 4])
def test_a_cut_beyond_the_log_is_refused(length: int) -> None:
    log = TokenLog([1, 2, 3])
    with pytest.raises(ValueError, match=f"cannot cut 3 tokens to {length}"):
        log.truncate(length)
    assert len(log) == 3


@given(token_lists, st.data())
def test_a_copied_prefix_is_a_log_of_its_own(tokens: list[int], data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(tokens)))
    log = TokenLog(tokens)
    copy, fresh = log.prefix(length), TokenLog([*tokens[:length], 7])
    copy.extend([7])
    assert [copy.digest(n) for n in range(length + 2)] == [fresh.digest(n) for n in range(length + 2)]
    assert log.tokens == tokens


@given(token_lists, token_lists, st.data())
def test_tokens_are_compared_from_a_position_on(first: list[int], second: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(first)))
    assert TokenLog(first).common_prefix(second, start) == TokenLog(first[start:]).common_prefix(second)


@given(token_lists, token_lists)
def test_the_common_prefix_is_the_longest_that_both_share(first: list[int], second: list[int]) -> None:
    shared = TokenLog(first).common_prefix(second)
    assert first[:shared] == second[:shared]
    assert shared == min(len(first), len(second)) or first[shared] != second[shared]


@given(token_lists.filter(bool), st.data())
def test_a_claim_of_any_prefix_of_the_cache_holds(tokens: list[int], data: st.DataObject) -> None:
    """Equal length: go on. Shorter claim: the longer cache is cut. Both are no miss."""
    length = data.draw(st.integers(0, len(tokens)))
    log = TokenLog(tokens)
    assert check_claim(Claim(length, log.digest(length), (1,)), log) is None


@given(token_lists, token_lists.filter(bool))
def test_a_claim_longer_than_the_cache_is_offered_what_is_there(tokens: list[int], more: list[int]) -> None:
    longer = TokenLog([*tokens, *more])
    claim = Claim(len(longer), longer.digest(len(longer)), (1,))
    assert check_claim(claim, TokenLog(tokens)) == CacheMiss(len(tokens))


@given(token_lists.filter(bool), st.data())
def test_a_claim_of_other_tokens_starts_from_nothing(tokens: list[int], data: st.DataObject) -> None:
    other = list(tokens)
    index = data.draw(st.integers(0, len(tokens) - 1))
    other[index] += 1
    claim = Claim(len(other), TokenLog(other).digest(len(other)), (1,))
    assert check_claim(claim, TokenLog(tokens)) == CacheMiss(0)


def test_the_end_of_a_claim_counts_prefix_and_tokens() -> None:
    assert Claim(5, 0, (1, 2, 3)).end == 8


@given(st.integers(0, MASK64), st.integers(0, MASK64))
def test_mix64_is_injective_and_stays_in_64_bits(first: int, second: int) -> None:
    assert 0 <= mix64(first) <= MASK64
    assert (mix64(first) == mix64(second)) == (first == second)


def test_mix64_gives_the_published_splitmix64_sequence() -> None:
    """First outputs of SplitMix64 seeded with 1234567, as published for java.util.SplittableRandom's core."""
    golden = 0x9E3779B97F4A7C15
    outputs = [mix64(1234567 + (n + 1) * golden) for n in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(0, MASK64), st.integers(0, 2**31 - 1))
def test_chain_wraps_to_64_bits(digest: int, token: int) -> None:
    assert 0 <= chain(digest, token) <= MASK64
