"""One attempt to reach something, from the namespace in which it is run: ``python -m tests.e2e.knocking``.

It prints one word: the name of the gRPC code; OPEN or CLOSED of a plain connection; the sum of a metric. It does not
know what is right.
"""

import argparse
import asyncio
import sys
import urllib.request
from pathlib import Path
from typing import Any

import grpc

from outrider.channel import CLIENT_OPTIONS
from outrider.credentials import PLAIN, Dialer
from outrider.tls import TlsFiles
from outrider.v1 import draft_pb2, draft_pb2_grpc, orchestrator_pb2, orchestrator_pb2_grpc, target_pb2, target_pb2_grpc
from tests.certificates import slow_clock
from tests.e2e.asking import tls_in

_PATIENCE_S = 4.0


async def _call(channel: grpc.aio.Channel, role: str, metadata: Any) -> None:
    if role == "orchestrator":
        stub: Any = orchestrator_pb2_grpc.OrchestratorServiceStub(channel)
        await stub.GetInfo(orchestrator_pb2.GetInfoRequest(), timeout=_PATIENCE_S, metadata=metadata)
    elif role == "target":
        stub = target_pb2_grpc.TargetServiceStub(channel)
        await stub.GetReplicaInfo(target_pb2.TargetServiceGetReplicaInfoRequest(), timeout=_PATIENCE_S)
    else:
        stub = draft_pb2_grpc.DraftServiceStub(channel)
        await stub.GetReplicaInfo(draft_pb2.DraftServiceGetReplicaInfoRequest(), timeout=_PATIENCE_S)


async def call(address: str, role: str, folder: Path | None, key: str) -> str:
    """The code of a call that only asks for facts."""
    dialer = Dialer(TlsFiles(tls_in(folder), clock=slow_clock), f"outrider-{role}") if folder else PLAIN
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    async with dialer.open(address, CLIENT_OPTIONS) as channel:
        try:
            await _call(channel, role, metadata)
        except grpc.aio.AioRpcError as error:
            return error.code().name
    return "OK"


async def connect(address: str) -> str:
    """Whether a connection comes about."""
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), _PATIENCE_S)
    except (OSError, TimeoutError):
        return "CLOSED"
    writer.close()
    return "OPEN"


def metric(address: str, name: str) -> str:
    """The sum of a metric over all its labels."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return "CLOSED"
    return str(sum(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0].split(" ")[0] == name))


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--role", choices=("orchestrator", "target", "draft"))
    parser.add_argument("--tls", type=Path)
    parser.add_argument("--key", default="")
    parser.add_argument("--metric")
    told = parser.parse_args()
    if told.metric:
        print(metric(told.address, told.metric))
    elif told.role is None:
        print(asyncio.run(connect(told.address)))
    else:
        print(asyncio.run(call(told.address, told.role, told.tls, told.key)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
