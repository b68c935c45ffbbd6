"""Who owns which cache block: a ref-counted pool and one table per session.

It knows block ids and lengths; the tensors behind them live in ``kv_store.py``. Rollback is a length. A block
whose prefix is registered stays readable after its last holder has gone, until somebody needs the room.
Invariants: ``pool.free + pool.held == pool.total`` (design I5), a block's count equals the tables that hold it,
and a registered block is never written.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

from outrider.inference.prefix_cache import PrefixIndex


class OutOfBlocks(Exception):
    """The pool has fewer free blocks than asked for. Nothing was changed."""


class BlockPool:
    """Equal blocks. A block is free when nobody holds it, whether or not it still holds a registered prefix."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.prefixes = PrefixIndex()
        self._empty = list(range(total - 1, -1, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()  # free, registered; least recently used first
        self._holders = [0] * total

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._empty) + len(self._cached)

    @property
    def held(self) -> int:
        """Blocks that at least one table holds."""
        return sum(1 for holders in self._holders if holders)

    @property
    def cached(self) -> int:
        """Free blocks that still hold a registered prefix."""
        return len(self._cached)

    def holders(self, block: int) -> int:
        """Tables that hold a block."""
        return self._holders[block]

    def allocate(self, count: int) -> list[int]:
        """Take ``count`` blocks, those without a prefix first. Raises OutOfBlocks, and then takes none."""
        if count > self.free:
            raise OutOfBlocks(f"{count} blocks wanted, {self.free} free of {self.total}")
        taken = [self._empty.pop() if self._empty else self._give_up() for _ in range(count)]
        for block in taken:
            self._holders[block] = 1
        return taken

    def _give_up(self) -> int:
        """The free block whose prefix was used least recently, without it."""
        block, _ = self._cached.popitem(last=False)
        self.prefixes.forget(block)
        return block

    def forget_prefixes(self) -> None:
        """Free blocks hold nothing that anybody may find any more."""
        while self._cached:
            self._empty.append(self._give_up())

    def share(self, blocks: Iterable[int]) -> None:
        """Count one more holder for each block, which somebody holds or a prefix keeps."""
        for block in blocks:
            if self._holders[block] == 0:
                del self._cached[block]
            self._holders[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Count one holder less for each block; the last one frees it.

        Later blocks go first: a prefix is of no use without its beginning, so its end is given up before it.
        """
        for block in reversed(blocks):
            if self._holders[block] <= 0:
                raise ValueError(f"block {block} is released more often than it was taken")
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._put_back(block)

    def _put_back(self, block: int) -> None:
        if block in self.prefixes:
            self._cached[block] = None
        else:
            self._empty.append(block)

    def check(self) -> None:
        """Raise AssertionError unless every block is empty, cached or held, and exactly one of them."""
        free = [*self._empty, *self._cached]
        if sorted(free) != [block for block in range(self.total) if not self._holders[block]]:
            raise AssertionError("the free blocks are not those that nobody holds")
        if any(block in self.prefixes for block in self._empty):
            raise AssertionError("an empty block has a prefix")
        if not all(block in self.prefixes for block in self._cached):
            raise AssertionError("a cached block has no prefix")
        self.prefixes.check()


class BlockTable:
    """Blocks of one session in order, and how many of their positions hold valid keys and values."""

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        self._pool = pool
        self.block_size = block_size
        self.blocks: list[int] = []
        self.length = 0

    def _count(self, length: int) -> int:
        return -(-length // self.block_size)

    def _writes_shared_block(self, length: int) -> bool:
        """Whether growing to ``length`` writes into a block that another table holds too."""
        partial = self.length % self.block_size
        return bool(
            partial and length > self.length and self._pool.holders(self.blocks[self._count(self.length) - 1]) > 1
        )

    def missing(self, length: int) -> int:
        """Blocks to allocate before ``length`` positions can be written."""
        return max(0, self._count(length) - len(self.blocks)) + self._writes_shared_block(length)

    def reserve(self, length: int) -> list[tuple[int, int]]:
        """Make room for ``length`` positions. Returns the (from, to) block copies that must come first.

        Copy on write: a last block that is half full and shared is replaced by a copy of its own. One that only
        this table holds is written in place and loses its registered prefix. Raises OutOfBlocks, and then
        changes nothing.
        """
        fresh = self._pool.allocate(self.missing(length))
        copies: list[tuple[int, int]] = []
        if self._writes_shared_block(length):
            index = self._count(self.length) - 1
            shared, own = self.blocks[index], fresh.pop()
            self.blocks[index] = own
            self._pool.release([shared])
            copies.append((shared, own))
        elif self.length % self.block_size and length > self.length:
            self._pool.prefixes.forget(self.blocks[self._count(self.length) - 1])
        self.blocks.extend(fresh)
        return copies

    def find(self, keys: Sequence[bytes]) -> list[int]:
        """Blocks that hold the first of these keys, as many as there are."""
        return self._pool.prefixes.match(keys)

    def adopt(self, blocks: Sequence[int]) -> None:
        """Continue with full blocks that hold what comes next; the table must end at a block's border."""
        if blocks and self.length != len(self.blocks) * self.block_size:
            raise ValueError("blocks can only be adopted at the end of a full one")
        self._pool.share(blocks)
        self.blocks.extend(blocks)
        self.length += len(blocks) * self.block_size

    def register(self, index: int, key: bytes) -> None:
        """Let other sessions find a full block by its key."""
        if self.length < (index + 1) * self.block_size:
            raise ValueError(f"block {index} of a table of {self.length} positions is not full")
        self._pool.prefixes.add(self.blocks[index], key)

    def advance(self, count: int) -> None:
        """Note that the next ``count`` reserved positions have been written."""
        if self.length + count > len(self.blocks) * self.block_size:
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
        twin = BlockTable(self._pool, self.block_size)
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
    pool.check()
    if pool.free + pool.held != pool.total:
        raise AssertionError(f"{pool.free} free and {pool.held} held are not {pool.total}")
