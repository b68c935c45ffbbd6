"""What is known of several orchestrators and their replicas at one moment, from what each has said within a minute.

It knows messages and moments, not how they were asked for, nor how they are shown.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.cli.top_counts import Counts, Interval, Rates, ratio
from outrider.v1 import orchestrator_pb2 as pb

WINDOW_S = 60.0


@dataclass(slots=True)
class History:
    """What one orchestrator said, and when (seconds of any clock). ``away``: why it does not answer now, in words;
    ``back``: it did not answer the time before."""

    address: str
    away: str = "not asked yet"
    back: bool = False
    said: deque[tuple[float, pb.GetInfoResponse]] = field(default_factory=deque)

    def answered(self, at_s: float, info: pb.GetInfoResponse) -> None:
        """It answered. Another process than before begins anew: its sums do."""
        if self.said and self.said[-1][1].incarnation != info.incarnation:
            self.said.clear()
        self.said.append((at_s, info))
        self.away, self.back = "", bool(self.away)
        while len(self.said) > 2 and self.said[1][0] <= at_s - WINDOW_S:
            self.said.popleft()

    @property
    def info(self) -> pb.GetInfoResponse | None:
        """What it says now; None while it is away."""
        return self.said[-1][1] if self.said and not self.away else None

    @property
    def last(self) -> Interval | None:
        """Since the answer before; None where there was none just before."""
        return None if self.back else self._since(-2)

    @property
    def minute(self) -> Interval | None:
        """Since the oldest answer of the window."""
        return self._since(0)

    def _since(self, place: int) -> Interval | None:
        if self.info is None or len(self.said) < 2:
            return None
        (since, first), (until, last) = self.said[place], self.said[-1]
        return Interval(Counts.of(last.totals).plus(Counts.of(first.totals), -1), until - since)


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as the orchestrators that know it see it. ``sessions``: answers of theirs with a stream to it;
    ``ready_at``: how many of those that know it use it; prefix counts are of the last minute."""

    role: str
    address: str
    state: str
    reason: str
    model: str
    weights: str
    sessions: int
    pending_rounds: int
    kv_used_tokens: int
    kv_capacity_tokens: int
    prefix_queries: int
    prefix_hits: int
    ready_at: int
    known_at: int

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "kv_share": self.kv_share, "prefix_hit_rate": self.prefix_hit_rate}

    @property
    def kv_share(self) -> float | None:
        """Of its KV cache, what is in use."""
        return ratio(self.kv_used_tokens, self.kv_capacity_tokens)

    @property
    def prefix_hit_rate(self) -> float | None:
        """hits / queries."""
        return ratio(self.prefix_hits, self.prefix_queries)


@dataclass(frozen=True, slots=True)
class Frame:
    """All of it. ``last`` and ``minute`` are None until there are two answers of one process."""

    histories: tuple[History, ...]
    replicas: tuple[Replica, ...]
    last: Rates | None
    minute: Rates | None

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "orchestrators": [orchestrator_dict(each) for each in self.histories],
            "replicas": [each.as_dict() for each in self.replicas],
            "last": self.last.as_dict() if self.last else None,
            "minute": self.minute.as_dict() if self.minute else None,
        }


def orchestrator_dict(history: History) -> dict[str, Any]:
    """What one orchestrator says, or why it does not."""
    info = history.info
    if info is None:
        return {"address": history.address, "state": "away", "reason": history.away}
    return {
        "address": history.address,
        "state": "serving",
        "running": info.active_requests,
        "waiting": info.waiting_requests,
        "sessions_kept": info.sessions,
        "journal": pb.JournalState.Name(info.journal).removeprefix("JOURNAL_STATE_").lower(),
        "incarnation": f"{info.incarnation:016x}",
    }


def frame_of(histories: Sequence[History]) -> Frame:
    """What histories come to."""
    return Frame(
        histories=tuple(histories),
        replicas=tuple(_replicas(histories)),
        last=Rates.of(each.last for each in histories),
        minute=Rates.of(each.minute for each in histories),
    )


def _replicas(histories: Sequence[History]) -> Iterator[Replica]:
    """Those of the same process are one, whoever knows them by which address."""
    for role in ("target", "draft"):
        seen: dict[str, list[tuple[History, pb.ReplicaStatus]]] = {}
        for history in histories:
            for status in _statuses(history.info, role):
                seen.setdefault(_key(status), []).append((history, status))
        yield from (_replica(role, each) for each in seen.values())


def _statuses(info: pb.GetInfoResponse | None, role: str) -> Sequence[pb.ReplicaStatus]:
    return () if info is None else info.targets if role == "target" else info.drafts


def _key(status: pb.ReplicaStatus) -> str:
    return f"{status.info.incarnation:016x}" if status.HasField("info") else status.address


def _replica(role: str, seen: Sequence[tuple[History, pb.ReplicaStatus]]) -> Replica:
    """Whoever uses it knows it best."""
    ready = [each for each in seen if each[1].state == pb.REPLICA_STATE_READY]
    history, best = (ready or seen)[0]
    queries, hits = _prefix_counts(history, role, best)
    state = pb.ReplicaState.Name(best.state).removeprefix("REPLICA_STATE_").lower()
    return Replica(
        role=role,
        address=best.address,
        state="leaving" if ready and best.leaving else state,
        reason=next((status.reason for _, status in seen if status.reason), ""),
        model=best.info.model_id,
        weights=best.info.weights_fingerprint,
        sessions=sum(status.sessions for _, status in seen),
        pending_rounds=best.info.load.pending_rounds,
        kv_used_tokens=best.info.load.kv_used_tokens,
        kv_capacity_tokens=best.info.kv_capacity_tokens,
        prefix_queries=queries,
        prefix_hits=hits,
        ready_at=len(ready),
        known_at=len(seen),
    )


def _prefix_counts(history: History, role: str, now: pb.ReplicaStatus) -> tuple[int, int]:
    """Tokens looked up and found since the oldest answer in which the same process was known."""
    for _, info in history.said:
        for status in _statuses(info, role):
            if status.HasField("info") and status.info.incarnation == now.info.incarnation:
                before, load = status.info.load, now.info.load
                queries = load.prefix_cache_queries - before.prefix_cache_queries
                return queries, load.prefix_cache_hits - before.prefix_cache_hits
    return 0, 0
