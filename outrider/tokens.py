"""A list of tokens that knows the digest of each of its prefixes, and the claims made of it (design I3).

The digest chains one hash per token, so extending and cutting cost nothing and two sides can compare any
prefix in eight bytes. It is no defence against an adversary: it tells honest peers that a cache is stale.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from outrider.hashing import GOLDEN, mix64

EMPTY_DIGEST = 0


def chain(digest: int, token: int) -> int:
    """Digest of a prefix and one more token."""
    return mix64(digest ^ ((token + 1) * GOLDEN))


class TokenLog:
    """Tokens of one session in order. Digests are computed when they are asked for: there are never more than
    ``len(tokens) + 1``, and those there are stay true."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._tokens: list[int] = []
        self._digests: list[int] = [EMPTY_DIGEST]
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> list[int]:
        """The tokens themselves; not to be changed by the reader."""
        return self._tokens

    def since(self, position: int) -> list[int]:
        """Tokens from a position on."""
        return self._tokens[position:]

    def digest(self, length: int) -> int:
        """Digest of the first ``length`` tokens. Raises IndexError when there are fewer."""
        for token in self._tokens[len(self._digests) - 1 : length]:
            self._digests.append(chain(self._digests[-1], token))
        return self._digests[length]

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        self._tokens.extend(tokens)

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises ValueError when there are fewer."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"cannot cut {len(self._tokens)} tokens to {length}")
        del self._tokens[length:]
        del self._digests[length + 1 :]

    def prefix(self, length: int) -> "TokenLog":
        """A copy of the first ``length`` tokens; no digest is computed again."""
        copy = TokenLog()
        copy._tokens = self._tokens[:length]
        copy._digests = self._digests[: length + 1]
        return copy

    def common_prefix(self, tokens: Iterable[int], start: int = 0) -> int:
        """Number of leading ``tokens`` that stand in this list from ``start`` on."""
        shared = 0
        for mine, theirs in zip(self.since(start), tokens, strict=False):
            if mine != theirs:
                break
            shared += 1
        return shared


@dataclass(frozen=True, slots=True)
class Claim:
    """What a round says of a session: ``prefix_len`` tokens of this digest are cached; ``tokens`` follow."""

    prefix_len: int
    prefix_digest: int
    tokens: tuple[int, ...]

    @property
    def end(self) -> int:
        """Length of the session with these tokens."""
        return self.prefix_len + len(self.tokens)


@dataclass(frozen=True, slots=True)
class CacheMiss:
    """Answer to a claim that does not hold: the caller resends from ``cached_len``."""

    cached_len: int


def check_claim(claim: Claim, cached: TokenLog) -> CacheMiss | None:
    """None when the cache can be cut to the claimed prefix; otherwise what it can offer (design I3)."""
    if claim.prefix_len > len(cached):
        return CacheMiss(len(cached))
    if cached.digest(claim.prefix_len) != claim.prefix_digest:
        return CacheMiss(0)
    return None
