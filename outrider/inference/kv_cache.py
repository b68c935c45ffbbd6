"""Who owns which cache block: a ref-counted free list and one table per session.

It knows block ids and lengths; the tensors behind them live in ``kv_store.py``. Rollback is a length.
Invariant (design I5): ``pool.free + pool.held == pool.total``, and a block's count equals the tables that
hold it.
"""

from collections import Counter
from collections.abc import Iterable


class OutOfBlocks(Exception):
    """The pool has fewer free blocks than asked for. Nothing was changed."""


class BlockPool:
    """Free list of equal blocks. A block is free when nobody holds it."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))
        self._holders = [0] * total

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def held(self) -> int:
        """Blocks that at least one table holds."""
        return sum(1 for holders in self._holders if holders)

    def holders(self, block: int) -> int:
        """Tables that hold a block."""
        return self._holders[block]

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks. Raises OutOfBlocks, and then takes none."""
        if count > len(self._free):
            raise OutOfBlocks(f"{count} blocks wanted, {len(self._free)} free of {self.total}")
        taken = [self._free.pop() for _ in range(count)]
        for block in taken:
            self._holders[block] = 1
        return taken

    def share(self, blocks: Iterable[int]) -> None:
        """Count one more holder for each block."""
        for block in blocks:
            self._holders[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Count one holder less for each block; the last one frees it."""
        for block in blocks:
            if self._holders[block] <= 0:
                raise ValueError(f"block {block} is released more often than it was taken")
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._free.append(block)


class BlockTable:
    """Blocks of one session in order, and how many of their positions hold valid keys and values."""

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        self._pool = pool
        self._block_size = block_size
        self.blocks: list[int] = []
        self.length = 0

    def _count(self, length: int) -> int:
        return -(-length // self._block_size)

    def _writes_shared_block(self, length: int) -> bool:
        """Whether growing to ``length`` writes into a block that another table holds too."""
        partial = self.length % self._block_size
        return bool(
            partial and length > self.length and self._pool.holders(self.blocks[self._count(self.length) - 1]) > 1
        )

    def missing(self, length: int) -> int:
        """Blocks to allocate before ``length`` positions can be written."""
        return max(0, self._count(length) - len(self.blocks)) + self._writes_shared_block(length)

    def reserve(self, length: int) -> list[tuple[int, int]]:
        """Make room for ``length`` positions. Returns the (from, to) block copies that must come first.

        Copy on write: a last block that is half full and shared is replaced by a copy of its own. Raises
        OutOfBlocks, and then changes nothing.
        """
        fresh = self._pool.allocate(self.missing(length))
        copies: list[tuple[int, int]] = []
        if self._writes_shared_block(length):
            index = self._count(self.length) - 1
            shared, own = self.blocks[index], fresh.pop()
            self.blocks[index] = own
            self._pool.release([shared])
            copies.append((shared, own))
        self.blocks.extend(fresh)
        return copies

    def advance(self, count: int) -> None:
        """Note that the next ``count`` reserved positions have been written."""
        if self.length + count > len(self.blocks) * self._block_size:
            raise ValueError("positions were written that had not been reserved")
        self.length += count

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` positions and give back the blocks beyond them, reserved ones included."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot cut {self.length} positions to {length}")
        self.length = length
        keep = self._count(length)
        self._pool.release(self.blocks[keep:])
        del self.blocks[keep:]

    def fork(self) -> "BlockTable":
        """A table over the same blocks; whoever writes first gets a copy."""
        twin = BlockTable(self._pool, self._block_size)
        twin.blocks = self.blocks[: self._count(self.length)]
        twin.length = self.length
        self._pool.share(twin.blocks)
        return twin

    def free(self) -> None:
        """Give back every block."""
        self.truncate(0)


def check_integrity(pool: BlockPool, tables: Iterable[BlockTable]) -> None:
    """Raise AssertionError unless the pool's counts are exactly what the tables hold."""
    held: Counter[int] = Counter()
    for table in tables:
        if len(set(table.blocks)) != len(table.blocks):
            raise AssertionError("a table holds a block twice")
        held.update(table.blocks)
    wrong = [block for block in range(pool.total) if pool.holders(block) != held[block]]
    if wrong:
        raise AssertionError(f"blocks {wrong[:8]} are counted otherwise than they are held")
    if pool.free + pool.held != pool.total:
        raise AssertionError(f"{pool.free} free and {pool.held} held are not {pool.total}")
