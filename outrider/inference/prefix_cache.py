"""Which blocks hold which prefixes: keys by content, so that sessions with equal beginnings share full blocks.

The key of a full block is a hash over the key of the block before it and its own tokens, so it names the whole
prefix up to the block's end. The root is the hash of the tenant: prefixes of different tenants never have equal
keys, and nobody can learn from the time of an answer what another tenant has asked. A wrong hit would be wrong
text, hence a real hash (blake2b, 16 bytes) and not the digests of ``tokens.py``. It knows keys and block
numbers; who holds a block and which block is given up next is the pool's business (``kv_cache.py``).
"""

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from sys import byteorder

_KEY_BYTES = 16


def root_key(tenant: str) -> bytes:
    """Key before the first block. The empty tenant has a root too, which everybody without a tenant shares."""
    return blake2b(tenant.encode(), digest_size=_KEY_BYTES).digest()


def block_key(previous: bytes, tokens: Sequence[int]) -> bytes:
    """Key of a full block: over the key before it and its tokens as little-endian int32."""
    ids = array("i", tokens)
    if byteorder == "big":
        ids.byteswap()
    return blake2b(previous + ids.tobytes(), digest_size=_KEY_BYTES).digest()


def keys_of(previous: bytes, tokens: Sequence[int], block_size: int) -> Iterator[bytes]:
    """Keys of the full blocks of ``tokens``, which follow the block of the key ``previous``."""
    for start in range(0, len(tokens) - block_size + 1, block_size):
        previous = block_key(previous, tokens[start : start + block_size])
        yield previous


class PrefixIndex:
    """Key to block and back; one block per key and one key per block."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, block: int) -> bool:
        return block in self._keys

    def items(self) -> Iterator[tuple[int, bytes]]:
        """Every registered block with its key."""
        return iter(self._keys.items())

    def add(self, block: int, key: bytes) -> None:
        """Register a full block, unless another one already holds this prefix: the first stays."""
        if key not in self._blocks and block not in self._keys:
            self._blocks[key] = block
            self._keys[block] = key

    def forget(self, block: int) -> None:
        """The block is about to hold something else."""
        key = self._keys.pop(block, None)
        if key is not None:
            del self._blocks[key]

    def match(self, keys: Sequence[bytes]) -> list[int]:
        """Blocks of the longest run of known keys, from the first on."""
        found: list[int] = []
        for key in keys:
            block = self._blocks.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def check(self) -> None:
        """Raise AssertionError unless both directions agree."""
        if self._blocks != {key: block for block, key in self._keys.items()}:
            raise AssertionError("the prefix index names a block by a key that is not its own")
