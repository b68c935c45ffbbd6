"""What ``outrider replicas`` says is what the orchestrator said."""

import io

from rich.console import Console

from outrider.cli.replicas import replica_reasons, replica_rows, replica_table
from outrider.v1 import common_pb2
from outrider.v1 import orchestrator_pb2 as pb

INFO = pb.GetInfoResponse(
    targets=[
        pb.ReplicaStatus(
            address="a:1",
            state=pb.REPLICA_STATE_READY,
            sessions=3,
            leaving=True,
            info=common_pb2.ReplicaInfo(
                model_id="/models/big",
                incarnation=255,
                kv_capacity_tokens=1000,
                load=common_pb2.Load(pending_rounds=5, kv_used_tokens=250),
            ),
        ),
        pb.ReplicaStatus(address="a:2", state=pb.REPLICA_STATE_UNAVAILABLE, reason="connection refused"),
    ],
    drafts=[pb.ReplicaStatus(address="b:1", state=pb.REPLICA_STATE_REFUSED, reason="tokenizers differ")],
)


def test_there_is_a_row_per_replica_with_its_load_and_why_it_is_not_used() -> None:
    rows = replica_rows(INFO)
    assert [(row["role"], row["address"], row["state"]) for row in rows] == [
        ("target", "a:1", "ready"),
        ("target", "a:2", "unavailable"),
        ("draft", "b:1", "refused"),
    ]
    assert (rows[0]["sessions"], rows[0]["pending_rounds"], rows[0]["incarnation"]) == (3, 5, "00000000000000ff")
    assert (rows[1]["incarnation"], rows[1]["reason"]) == ("", "connection refused")


def test_people_see_shares_states_and_reasons() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(replica_table(replica_rows(INFO)))
    text = out.getvalue()
    for words in ("big", "25%", "leaving", "unavailable", "refused"):
        assert words in text
    assert replica_reasons(replica_rows(INFO)) == ["a:2: connection refused", "b:1: tokenizers differ"]
