"""A registered block holds exactly the tokens its key names, whatever was run, cut, shared, forked and evicted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from outrider.inference.kv_cache import BlockPool, BlockTable, check_integrity
from outrider.inference.prefix_cache import PrefixIndex, block_key, keys_of, root_key
from outrider.inference.sessions import Session, SessionStore
from tests.unit.test_sessions import obtain, share

BLOCK = 4
TOTAL = 10
TENANTS = ("", "red", "blue")
Seen = tuple[str, tuple[int, ...]]
"""What keys and values at a position depend on: the tenant, for the test's sake, and the tokens up to there."""


def test_a_key_names_the_tokens_and_everything_before_them() -> None:
    root = root_key("")
    first = block_key(root, [1, 2, 3, 4])
    assert first == block_key(root, (1, 2, 3, 4))
    others = {block_key(root, [1, 2, 3, 5]), block_key(root_key("red"), [1, 2, 3, 4]), block_key(first, [1, 2, 3, 4])}
    assert len(others | {first}) == 4


@given(st.lists(st.integers(0, 2**31 - 1), max_size=30))
def test_only_full_blocks_have_keys_and_each_follows_the_one_before(tokens: list[int]) -> None:
    keys = list(keys_of(root_key("t"), tokens, BLOCK))
    assert len(keys) == len(tokens) // BLOCK
    previous = root_key("t")
    for index, key in enumerate(keys):
        assert key == block_key(previous, tokens[index * BLOCK : (index + 1) * BLOCK])
        previous = key


def test_a_prefix_ends_at_the_first_block_that_is_not_there() -> None:
    index = PrefixIndex()
    keys = list(keys_of(root_key(""), range(16), BLOCK))
    for block in (0, 1, 3):
        index.add(block, keys[block])
    assert index.match(keys) == [0, 1]
    index.forget(0)
    assert index.match(keys) == []
    assert index.match(keys[1:]) == [1]


def test_the_first_block_of_a_prefix_stays_the_one_that_is_found() -> None:
    index = PrefixIndex()
    key = block_key(root_key(""), [1, 2, 3, 4])
    index.add(5, key)
    index.add(6, key)
    assert (index.match([key]), 6 in index) == ([5], False)


def filled(pool: BlockPool, tokens: list[int], tenant: str = "") -> Session:
    """A session that has computed and offered these tokens."""
    session = Session("s", BlockTable(pool, BLOCK), root_key(tenant))
    session.table.reserve(len(tokens))
    session.table.advance(len(tokens))
    session.log.extend(tokens)
    session.offer(len(tokens))
    return session


def test_a_freed_prefix_is_found_until_somebody_needs_its_room() -> None:
    pool = BlockPool(4)
    filled(pool, list(range(8))).truncate(0)
    assert (pool.free, pool.cached) == (4, 2)
    again = Session("t", BlockTable(pool, BLOCK), root_key(""))
    assert share(again, list(range(9))) == 8
    again.truncate(0)
    pool.release(pool.allocate(4))
    assert share(again, list(range(9))) == 0


def test_blocks_without_a_prefix_go_first_and_then_the_end_of_the_oldest_prefix() -> None:
    pool = BlockPool(6)
    for tokens in (range(8), range(100, 108)):
        filled(pool, list(tokens)).truncate(0)
    pool.allocate(3)
    fresh = Session("t", BlockTable(pool, BLOCK), root_key(""))
    assert share(fresh, list(range(9))) == 4
    fresh.truncate(0)
    assert share(fresh, list(range(100, 109))) == 8


def test_a_prefix_of_another_tenant_is_never_found() -> None:
    pool = BlockPool(8)
    filled(pool, list(range(8)), "red")
    for tenant, found in (("blue", 0), ("", 0), ("red", 8)):
        assert share(Session("t", BlockTable(pool, BLOCK), root_key(tenant)), list(range(9))) == found


@pytest.mark.parametrize(("tokens", "found"), [(8, 4), (9, 8), (4, 0), (5, 4), (3, 0)])
def test_the_last_token_is_never_found_because_its_logits_are_wanted(tokens: int, found: int) -> None:
    pool = BlockPool(8)
    filled(pool, list(range(12)))
    assert share(Session("t", BlockTable(pool, BLOCK), root_key("")), list(range(tokens))) == found


def test_a_session_goes_on_with_shared_blocks_at_a_border_only() -> None:
    pool = BlockPool(12)
    filled(pool, list(range(12)))
    other = filled(pool, [*range(4), 9, 9])
    assert share(other, list(range(4, 12))) == 0
    other.truncate(4)
    assert share(other, list(range(4, 12))) == 4


def test_a_block_that_is_cut_and_written_again_loses_its_key() -> None:
    pool = BlockPool(8)
    session = filled(pool, list(range(8)))
    session.truncate(6)
    assert len(pool.prefixes) == 2, "nothing has been written yet"
    session.table.reserve(8)
    assert len(pool.prefixes) == 1


def test_what_is_not_full_cannot_be_registered_or_followed() -> None:
    table = BlockTable(BlockPool(4), BLOCK)
    table.reserve(6)
    table.advance(6)
    with pytest.raises(ValueError, match="not full"):
        table.register(1, root_key(""))
    with pytest.raises(ValueError, match="end of a full one"):
        table.adopt([3])


class PrefixMachine(RuleBasedStateMachine):
    """Random sessions of three tenants over one small pool, used as the engine uses them.

    ``memory`` plays the tensors: at each position what its keys and values would depend on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(TOTAL)
        self.store = SessionStore(self.pool, BLOCK, 1e9)
        self.memory: list[list[Seen | None]] = [[None] * BLOCK for _ in range(TOTAL)]
        self.twins: list[tuple[BlockTable, list[Seen]]] = []
        self.clock = 0.0

    def _seen(self, tenant: str, tokens: list[int]) -> list[Seen]:
        return [(tenant, tuple(tokens[: index + 1])) for index in range(len(tokens))]

    def _read(self, table: BlockTable) -> list[Seen | None]:
        return [self.memory[table.blocks[i // BLOCK]][i % BLOCK] for i in range(table.length)]

    @rule(
        name=st.sampled_from("abc"),
        tenant=st.sampled_from(TENANTS),
        cut=st.integers(0, 20),
        tokens=st.lists(st.integers(0, 1), min_size=1, max_size=12),
        guesses=st.integers(0, 5),
        keep=st.integers(0, 5),
    )
    def round(self, name: str, tenant: str, cut: int, tokens: list[int], guesses: int, keep: int) -> None:
        """Cut to a prefix, share, reserve, write what is left and some guesses, keep some of the guesses."""
        self.clock += 1
        session = obtain(self.store, f"{tenant}/{name}", self.clock, tenant)
        session.truncate(min(cut, len(session.log)))
        session.busy = True
        wanted = len(session.log) + len(tokens) + guesses
        shared = share(session, tokens)
        assert shared < len(tokens)
        if self.store.make_room(session.table.missing(wanted), [s for s in self.store if not s.busy]):
            for source, target in session.table.reserve(wanted):
                self.memory[target] = list(self.memory[source])
            self._write(session, tenant, tokens[shared:])
            session.offer(len(session.log))
            committed = len(session.log)
            self._write(session, tenant, [7] * guesses)
            session.truncate(min(committed + keep, len(session.log)))
        else:
            session.truncate(len(session.log) - shared)
        session.busy = False

    def _write(self, session: Session, tenant: str, tokens: list[int]) -> None:
        for token in tokens:
            at = len(session.log)
            session.log.extend([token])
            block = session.table.blocks[at // BLOCK]
            assert block not in self.pool.prefixes, "a registered block is written"
            self.memory[block][at % BLOCK] = (tenant, tuple(session.log.tokens))
            session.table.advance(1)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        names = [session.session_id for session in self.store]
        if names:
            self.store.drop(data.draw(st.sampled_from(names)))

    @rule(data=st.data(), cut=st.integers(0, 20))
    def truncate(self, data: st.DataObject, cut: int) -> None:
        sessions = list(self.store)
        if sessions:
            session = data.draw(st.sampled_from(sessions))
            session.truncate(min(cut, len(session.log)))

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        """A second table over a session's blocks, as looking ahead will hold them."""
        sessions = list(self.store)
        if sessions and len(self.twins) < 2:
            session = data.draw(st.sampled_from(sessions))
            twin = session.table.fork()
            self.twins.append((twin, [seen for seen in self._read(twin) if seen is not None]))

    @rule()
    def end_fork(self) -> None:
        if self.twins:
            self.twins.pop(0)[0].free()

    @invariant()
    def every_registered_block_holds_what_its_key_names(self) -> None:
        for block, key in self.pool.prefixes.items():
            last = self.memory[block][BLOCK - 1]
            assert last is not None
            tenant, prefix = last
            assert self.memory[block] == self._seen(tenant, list(prefix))[-BLOCK:]
            assert key == list(keys_of(root_key(tenant), prefix, BLOCK))[-1]
            assert len(prefix) % BLOCK == 0

    @invariant()
    def every_session_reads_its_own_tokens(self) -> None:
        for session in self.store:
            tenant = session.session_id.split("/")[0]
            assert self._read(session.table) == self._seen(tenant, session.log.tokens)
        for twin, seen in self.twins:
            assert self._read(twin) == seen

    @invariant()
    def blocks_add_up(self) -> None:
        check_integrity(self.pool, [*(session.table for session in self.store), *(twin for twin, _ in self.twins)])
        assert self.pool.free + self.pool.held == TOTAL

    def teardown(self) -> None:
        for twin, _ in self.twins:
            twin.free()
        for session in list(self.store):
            self.store.drop(session.session_id)
        assert self.pool.free == TOTAL


PrefixMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestPrefixMachine = PrefixMachine.TestCase
