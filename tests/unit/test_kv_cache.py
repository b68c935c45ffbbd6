"""No table ever sees another's write, and blocks always add up."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outrider.inference.kv_cache import BlockPool, BlockTable, OutOfBlocks, check_integrity

BLOCK = 4
TOTAL = 12


class Shadow:
    """A table beside the contents that it must have: ``expected[i]`` was written at position i."""

    def __init__(self, table: BlockTable) -> None:
        self.table = table
        self.expected: list[int] = []
        self.reserved = 0


class CacheMachine(RuleBasedStateMachine):
    """Random sessions over one pool. ``memory`` plays the tensors: blocks hold what was written or copied there."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(TOTAL)
        self.memory: list[list[int | None]] = [[None] * BLOCK for _ in range(TOTAL)]
        self.shadows: list[Shadow] = []
        self.stamp = 0

    @initialize()
    def begin(self) -> None:
        self.shadows.append(Shadow(BlockTable(self.pool, BLOCK)))

    def _pick(self, data: st.DataObject) -> Shadow:
        return data.draw(st.sampled_from(self.shadows))

    @precondition(lambda self: len(self.shadows) < 5)
    @rule()
    def add(self) -> None:
        self.shadows.append(Shadow(BlockTable(self.pool, BLOCK)))

    @rule(data=st.data(), more=st.integers(0, 9))
    def reserve(self, data: st.DataObject, more: int) -> None:
        """All or nothing: copies are done at once, or nothing has changed."""
        shadow = self._pick(data)
        length = shadow.table.length + more
        before = (list(shadow.table.blocks), self.pool.free, shadow.table.missing(length))
        try:
            copies = shadow.table.reserve(length)
        except OutOfBlocks:
            assert before == (list(shadow.table.blocks), self.pool.free, shadow.table.missing(length))
            assert before[2] > self.pool.free
            return
        assert self.pool.free >= before[1] - before[2]
        for source, target in copies:
            self.memory[target] = list(self.memory[source])
        shadow.reserved = max(shadow.reserved, length)

    @rule(data=st.data(), count=st.integers(1, 9))
    def write(self, data: st.DataObject, count: int) -> None:
        """Write fresh values to reserved positions, possibly after others forked from this table."""
        shadow = self._pick(data)
        for _ in range(min(count, shadow.reserved - shadow.table.length)):
            self.stamp += 1
            at = shadow.table.length
            self.memory[shadow.table.blocks[at // BLOCK]][at % BLOCK] = self.stamp
            shadow.expected.append(self.stamp)
            shadow.table.advance(1)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        shadow = self._pick(data)
        length = data.draw(st.integers(0, shadow.table.length))
        shadow.table.truncate(length)
        del shadow.expected[length:]
        shadow.reserved = length

    @precondition(lambda self: len(self.shadows) < 5)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        parent = self._pick(data)
        twin = Shadow(parent.table.fork())
        twin.expected = list(parent.expected)
        twin.reserved = twin.table.length
        self.shadows.append(twin)

    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        shadow = self._pick(data)
        shadow.table.free()
        assert shadow.table.blocks == []
        shadow.expected.clear()
        shadow.reserved = 0

    @invariant()
    def every_table_reads_what_it_wrote(self) -> None:
        for shadow in self.shadows:
            table = shadow.table
            assert table.length == len(shadow.expected)
            read = [self.memory[table.blocks[i // BLOCK]][i % BLOCK] for i in range(table.length)]
            assert read == shadow.expected

    @invariant()
    def blocks_add_up(self) -> None:
        check_integrity(self.pool, [shadow.table for shadow in self.shadows])
        assert self.pool.free + self.pool.held == self.pool.total == TOTAL

    def teardown(self) -> None:
        for shadow in self.shadows:
            shadow.table.free()
        assert self.pool.free == TOTAL


CacheMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestCacheMachine = CacheMachine.TestCase


def test_allocating_too_much_takes_nothing() -> None:
    pool = BlockPool(3)
    pool.allocate(2)
    with pytest.raises(OutOfBlocks, match="2 blocks wanted, 1 free of 3"):
        pool.allocate(2)
    assert (pool.free, pool.held) == (1, 2)


def test_a_block_that_is_released_twice_is_an_error() -> None:
    pool = BlockPool(2)
    taken = pool.allocate(1)
    pool.release(taken)
    with pytest.raises(ValueError, match="released more often"):
        pool.release(taken)


def test_a_shared_block_is_free_when_its_last_holder_goes() -> None:
    pool = BlockPool(2)
    taken = pool.allocate(1)
    pool.share(taken)
    pool.release(taken)
    assert pool.free == 1
    pool.release(taken)
    assert pool.free == 2


def test_writing_beyond_the_reservation_is_an_error() -> None:
    table = BlockTable(BlockPool(2), BLOCK)
    table.reserve(4)
    with pytest.raises(ValueError, match="had not been reserved"):
        table.advance(5)


@pytest.mark.parametrize("length", [-1, 4])
def test_a_table_is_only_ever_cut(length: int) -> None:
    table = BlockTable(BlockPool(2), BLOCK)
    table.reserve(3)
    table.advance(3)
    with pytest.raises(ValueError, match="cannot cut"):
        table.truncate(length)


def test_only_the_half_full_shared_block_is_copied() -> None:
    pool = BlockPool(8)
    parent = BlockTable(pool, BLOCK)
    parent.reserve(6)
    parent.advance(6)
    twin = parent.fork()
    copies = twin.reserve(7)
    assert copies == [(parent.blocks[1], twin.blocks[1])]
    assert twin.blocks[0] == parent.blocks[0]
    assert parent.reserve(7) == []


def test_a_full_shared_block_is_never_copied() -> None:
    pool = BlockPool(8)
    parent = BlockTable(pool, BLOCK)
    parent.reserve(4)
    parent.advance(4)
    assert parent.fork().reserve(5) == []


def test_integrity_finds_a_block_that_nobody_holds() -> None:
    pool = BlockPool(2)
    pool.allocate(1)
    with pytest.raises(AssertionError, match="counted otherwise"):
        check_integrity(pool, [])


def test_integrity_finds_a_table_that_holds_a_block_twice() -> None:
    pool = BlockPool(2)
    table = BlockTable(pool, BLOCK)
    table.reserve(4)
    pool.share(table.blocks)
    table.blocks.append(table.blocks[0])
    with pytest.raises(AssertionError, match="twice"):
        check_integrity(pool, [table])
