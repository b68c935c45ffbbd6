"""What holds of every answer of a replica; one that it does not hold of is the replica's fault. It knows no streams."""

from collections.abc import Sequence
from typing import Any

from outrider.errors import InvalidArgument, ProtocolViolation, Unavailable
from outrider.tokens import CacheMiss, Claim
from outrider.wire import ReplicaFacts, check_tokens


def check_incarnation(response: Any, facts: ReplicaFacts) -> None:
    """Raises Unavailable when another process answers than the one that was greeted."""
    if response.incarnation != facts.incarnation:
        raise Unavailable("the replica has restarted")


def check_length(name: str, value: int, least: int, most: int) -> int:
    """The value. Raises ProtocolViolation outside its bounds."""
    if not least <= value <= most:
        raise ProtocolViolation(f"{name} is {value}, must be {least} to {most}")
    return value


def check_ids(name: str, ids: Sequence[int], vocab_size: int) -> tuple[int, ...]:
    """The ids of an answer. One that does not exist is the peer's fault, not the request's."""
    try:
        return check_tokens(name, ids, vocab_size)
    except InvalidArgument as error:
        raise ProtocolViolation(error.message) from None


def read_miss(response: Any, claim: Claim) -> CacheMiss:
    """A cache that does not have a prefix has less of it: what it names shrinks with every claim, and the empty one
    always holds."""
    offered = response.cache_miss.cached_len
    if offered >= claim.prefix_len:
        raise ProtocolViolation(f"cache miss at {claim.prefix_len} tokens offers {offered}")
    return CacheMiss(offered)
