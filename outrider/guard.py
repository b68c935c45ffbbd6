"""Who may call, and how many calls may run at once. It does not know services, nor what becomes of a call."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from outrider.credentials import check_peer
from outrider.errors import ResourceExhausted

_OTHERS = ""
"""Stands for all methods without places of their own."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Owner of the numbers of running calls. ``peers``: names of who may call, empty for everybody; ``places``: most
    calls at once of single methods; ``most``: of all others together, None for any number."""

    peers: Collection[str] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    most: int | None = None
    _running: Counter[str] = field(default_factory=Counter)

    def enter(self, context: Any, method: str) -> None:
        """A call begins; ``leave`` ends it. Raises PermissionDenied and ResourceExhausted."""
        check_peer(context, self.peers)
        of = self._counted_as(method)
        most = self.places.get(method, self.most)
        if most is not None and self._running[of] >= most:
            raise ResourceExhausted(f"{most} calls {f'of {of[1:]} ' if of else ''}are running already, and no more may")
        self._running[of] += 1

    def leave(self, method: str) -> None:
        """It has ended."""
        self._running[self._counted_as(method)] -= 1

    def _counted_as(self, method: str) -> str:
        return method if method in self.places else _OTHERS
