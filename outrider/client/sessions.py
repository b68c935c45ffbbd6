"""Sessions that may go on: where their last turn was answered, and how many turns they have. It knows no calls."""

from collections import OrderedDict
from dataclasses import dataclass

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Known:
    """``address`` has its caches; ``turns`` are complete, None where nobody has told."""

    address: str = ""
    turns: int | None = None


class Sessions:
    """Owner of what a client remembers of its sessions; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    def of(self, session_id: str) -> Known:
        """What is known of a session; of one that began elsewhere, nothing."""
        return self._known.get(session_id, Known())

    def remember(self, session_id: str, known: Known) -> None:
        """A turn is complete."""
        self._known[session_id] = known
        self._known.move_to_end(session_id)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
