"""Where a session is in a pool, from one answer to the next. A value with one owner, its conversation."""

from dataclasses import dataclass


@dataclass(slots=True)
class Place:
    """``address`` is where it was last, empty at first; ``key`` is equal for sessions that begin alike."""

    key: str = ""
    address: str = ""
