"""``outrider replicas``: who serves, in which state, and how busy it is, as one orchestrator sees it."""

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from outrider.v1 import orchestrator_pb2 as pb

_COLUMNS = ("role", "address", "state", "model", "sessions here", "rounds", "KV used", "incarnation")


def _row(role: str, status: pb.ReplicaStatus) -> dict[str, Any]:
    info, load = status.info, status.info.load
    known = status.HasField("info")
    return {
        "role": role,
        "address": status.address,
        "state": pb.ReplicaState.Name(status.state).removeprefix("REPLICA_STATE_").lower(),
        "model": info.model_id,
        "sessions": status.sessions,
        "pending_rounds": load.pending_rounds,
        "kv_used_tokens": load.kv_used_tokens,
        "kv_capacity_tokens": info.kv_capacity_tokens,
        "incarnation": f"{info.incarnation:016x}" if known else "",
        "leaving": status.leaving,
        "reason": status.reason,
    }


def replica_rows(info: pb.GetInfoResponse) -> list[dict[str, Any]]:
    """One row per replica, targets first; for --json."""
    return [_row("target", status) for status in info.targets] + [_row("draft", status) for status in info.drafts]


def replica_table(rows: Iterable[dict[str, Any]]) -> Table:
    """The rows for people."""
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    for row in rows:
        used = row["kv_used_tokens"] / row["kv_capacity_tokens"] if row["kv_capacity_tokens"] else 0.0
        state = "leaving" if row["leaving"] and row["state"] == "ready" else row["state"]
        model = row["model"].rstrip("/").rpartition("/")[2]
        cells = [row["role"], row["address"], state, model, row["sessions"], row["pending_rounds"], f"{used:.0%}"]
        table.add_row(*(str(cell) for cell in cells), row["incarnation"])
    return table


def replica_reasons(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Why those that are not used are not, in lines of any length: a reason without its end is none."""
    return [f"{row['address']}: {row['reason']}" for row in rows if row["reason"]]
