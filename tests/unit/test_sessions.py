"""Sessions age out, go least recently used first, and never while a round of them runs."""

import pytest

from outrider.inference.kv_cache import BlockPool
from outrider.inference.prefix_cache import keys_of
from outrider.inference.sessions import Session, SessionStore
from outrider.inference.stream import Stream

BLOCK = 4


def store_with(*names: str, blocks: int = 8, ttl_s: float = 10.0) -> SessionStore:
    """Sessions of one block each, used in this order at seconds 0, 1, 2..."""
    store = SessionStore(BlockPool(blocks), BLOCK, ttl_s)
    for second, name in enumerate(names):
        fill(obtain(store, name, float(second)), 3)
    return store


def fill(session: Session, count: int) -> None:
    session.table.reserve(count)
    session.table.advance(count)
    session.log.extend(range(count))


def obtain(store: SessionStore, name: str, now: float, tenant: str = "") -> Session:
    """The session, new when unknown, used now."""
    session = store.get(name) or store.blank(name, tenant)
    store.touch(session, now)
    return session


def share(session: Session, tokens: list[int]) -> int:
    """Take over the blocks of others that hold the first of these tokens, as the admission does."""
    keys = session.keys_after(tokens)
    blocks = session.table.find(keys)
    session.table.adopt(blocks)
    return session.note_shared(tokens, keys[: len(blocks)])


def idle(store: SessionStore) -> list[Session]:
    return [session for session in store if not session.busy]


def names(store: SessionStore) -> list[str]:
    return [session.session_id for session in store]


def test_a_session_is_new_once_and_then_the_same() -> None:
    store = store_with()
    assert store.get("a") is None
    assert obtain(store, "a", 0.0) is obtain(store, "a", 1.0) is store.get("a")


def test_idle_sessions_expire_at_their_time_to_live() -> None:
    store = store_with("a", "b", "c", ttl_s=10.0)
    store.expire(10.9)
    assert names(store) == ["b", "c"]
    store.expire(12.0)
    assert names(store) == []
    assert store.pool.free == store.pool.total


def test_using_a_session_renews_it() -> None:
    store = store_with("a", "b", ttl_s=10.0)
    obtain(store, "a", 9.0)
    store.expire(15.0)
    assert names(store) == ["a"]


def test_a_busy_session_never_expires() -> None:
    store = store_with("a", "b")
    obtain(store, "a", 0.0).busy = True
    store.expire(1e9)
    assert names(store) == ["a"]


def test_eviction_takes_the_least_recently_used_and_no_more_than_needed() -> None:
    store = store_with("a", "b", "c", "d", blocks=5)
    obtain(store, "a", 9.0)
    assert store.make_room(2, idle(store))
    assert names(store) == ["c", "d", "a"]
    assert store.evictions == 1


def test_a_busy_session_is_never_evicted() -> None:
    store = store_with("a", "b", "c", blocks=3)
    obtain(store, "a", 0.0).busy = True
    assert store.make_room(2, idle(store))
    assert names(store) == ["a"]
    assert not store.make_room(3, idle(store))
    assert names(store) == ["a"]


def test_nobody_is_evicted_when_it_would_not_make_enough_room() -> None:
    store = store_with("a", "b", "c", blocks=3)
    obtain(store, "a", 0.0).busy = True
    assert not store.make_room(3, idle(store))
    assert (sorted(names(store)), store.evictions) == (["a", "b", "c"], 0)


def test_nothing_is_evicted_while_there_is_room() -> None:
    store = store_with("a", "b", blocks=8)
    assert store.make_room(6, idle(store))
    assert (names(store), store.evictions) == (["a", "b"], 0)


def test_a_session_without_blocks_is_not_evicted_for_nothing() -> None:
    store = store_with("a", blocks=1)
    obtain(store, "empty", 0.0)
    assert store.make_room(1, idle(store))
    assert names(store) == ["empty"]


def test_dropping_frees_the_blocks_and_tells_whether_it_was_known() -> None:
    store = store_with("a")
    assert store.drop("a")
    assert not store.drop("a")
    assert store.pool.held == 0


def test_integrity_covers_lengths_too() -> None:
    store = store_with("a", "b")
    store.check_integrity()
    obtain(store, "a", 0.0).log.extend([1])
    with pytest.raises(AssertionError, match="session a: 4 tokens, 3 cached"):
        store.check_integrity()


def test_truncating_a_session_cuts_tokens_and_cache_alike() -> None:
    store = store_with()
    session = obtain(store, "a", 0.0)
    fill(session, 9)
    session.truncate(4)
    store.check_integrity()
    assert (len(session.log), session.table.length, len(session.table.blocks)) == (4, 4, 1)


def test_room_to_spare_must_be_there_but_is_not_made() -> None:
    store = store_with("a", "b", "c", blocks=4)
    assert not store.make_room(2, idle(store)[:1], spare=1)
    assert store.make_room(1, idle(store)[:1], spare=1)
    assert (names(store), store.evictions) == (["a", "b", "c"], 0)


@pytest.mark.parametrize(
    ("stream", "busy", "running"),
    [
        (None, True, False),
        (Stream(), False, True),
        (Stream(open=False), False, False),
        (Stream(open=False), True, False),
    ],
)
def test_a_session_runs_while_the_stream_that_it_came_by_is_open(
    stream: Stream | None, busy: bool, running: bool
) -> None:
    session = obtain(store_with(), "a", 5.0)
    session.stream, session.busy = stream, busy
    assert session.running(since=4.0) is running


def test_a_stream_that_has_been_silent_for_long_runs_only_while_it_has_a_round() -> None:
    session = obtain(store_with(), "a", 5.0)
    session.stream = Stream()
    assert not session.running(since=6.0)
    session.busy = True
    assert session.running(since=6.0)


def test_a_guess_that_filled_a_block_and_was_claimed_since_counts_in_the_keys_behind_it() -> None:
    """Accepted draft tokens are offered late: what follows them must not be looked up as if they were not there."""
    store = store_with(blocks=16)
    other = obtain(store, "b", 0.0)
    fill(other, 8)
    other.offer(8)
    session = obtain(store, "a", 1.0)
    fill(session, 4)
    session.truncate(2)
    grow(session, 7, 7)  # a block that was never offered
    assert share(session, [0, 1, 2, 3, 4]) == 0, "the other's first block does not belong behind it"
    grow(session, 0, 1, 2, 3)
    session.offer(8)
    assert session.keys == list(keys_of(session.root, session.log.tokens, BLOCK))
    third = obtain(store, "c", 2.0)
    assert share(third, [0, 1, 7, 7, 0, 1, 2, 3, 9]) == 8


def tree(store: SessionStore, name: str, count: int, *lengths: int) -> tuple[Session, list[Session]]:
    """A session of ``count`` tokens with branches at these lengths."""
    session = obtain(store, name, 0.0)
    fill(session, count)
    return session, [session.fork(length) for length in lengths]


def grow(session: Session, *tokens: int) -> None:
    """Append tokens; whoever shares the last block keeps its own."""
    session.table.reserve(session.table.length + len(tokens))
    session.table.advance(len(tokens))
    session.log.extend(tokens)


def test_branches_share_blocks_until_they_write() -> None:
    store = store_with()
    session, (low, high) = tree(store, "a", 7, 4, 6)
    assert (store.pool.held, low.table.blocks) == (2, session.table.blocks[:1])
    grow(high, 9)
    grow(low, 9)
    store.check_integrity()
    assert store.pool.held == 4
    assert session.log.tokens == list(range(7))
    assert (low.log.tokens, high.log.tokens) == ([0, 1, 2, 3, 9], [0, 1, 2, 3, 4, 5, 9])


def test_a_session_goes_on_as_one_of_its_branches() -> None:
    store = store_with()
    session, (low, high) = tree(store, "a", 7, 4, 6)
    grow(low, 9)
    session.take_over(low)
    store.check_integrity()
    assert (session.log.tokens, session.branches, low.alive) == ([0, 1, 2, 3, 9], [high], False)
    session.prune()
    store.check_integrity()
    assert (session.branches, high.alive, store.pool.held) == ([], False, 2)


def test_a_branch_goes_alone_and_a_session_takes_its_branches_with_it() -> None:
    store = store_with()
    session, (low, high) = tree(store, "a", 7, 4, 6)
    store.discard(low)
    assert (session.branches, session.alive, low.alive) == ([high], True, False)
    store.drop("a")
    assert (session.alive, high.alive, store.pool.held, len(store)) == (False, False, 0, 0)


def test_branches_are_no_sessions_and_go_before_them() -> None:
    """Evicting them is no eviction: nobody has to come back for them."""
    store = store_with("b", blocks=6)
    session, branches = tree(store, "a", 7, 6, 6)
    for branch in branches:
        grow(branch, 9)
    assert (len(store), store.pool.free) == (2, 1)
    assert store.make_room(2, [*store.branches(), *idle(store)])
    assert (names(store), session.branches, store.evictions) == (["b", "a"], branches[1:], 0)
    assert store.make_room(4, [*store.branches(), *idle(store)])
    assert (names(store), session.branches, store.evictions) == (["a"], [], 1)
    store.check_integrity()


def test_a_branch_keeps_the_keys_of_the_blocks_that_it_shares() -> None:
    store = store_with()
    session, _ = tree(store, "a", 9)
    session.offer(9)
    assert len(session.fork(9).keys) == 2
    assert len(session.fork(7).keys) == 1
