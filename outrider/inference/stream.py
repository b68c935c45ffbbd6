"""One open call of a session, as the engine sees it: who it belongs to, since when it is served, what it waits for.

It knows no gRPC and decides nothing: the service opens and ends it, ``admission.py`` reads and writes the rest.
"""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Stream:
    """A session is *running* while a stream of it is open that has been served, or that goes on with an answer
    which began elsewhere (``resumed``): then it is never refused. Until its first round is served it is *new*.

    ``age`` is the order in which streams began to be served, the oldest first; ``waiting_since`` is set while a
    round waits for memory, and survives the cache misses in between; ``served`` once a round of it was completed.
    """

    tenant: str = ""
    resumed: bool = False
    open: bool = True
    age: int | None = None
    waiting_since: float | None = None
    served: bool = False

    @property
    def new(self) -> bool:
        """Whether it may still be refused."""
        return self.age is None and not self.resumed
