"""A small receiver of traces: OTLP over gRPC in, one line of OTLP JSON per request in a file.

For one machine: ``outrider up --observe`` starts it, ``outrider trace FILE`` reads what it wrote. It keeps nothing in
memory and knows nothing of what spans say.
"""

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from typing import Any, TextIO

import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    DESCRIPTOR,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from outrider import logs, otlp_json
from outrider.server import Server, wait_for_signal

log = logging.getLogger("receiver")
MOST_BYTES = 256 * 2**20
"""Of a file; then it begins anew, and the one before is kept."""


class Receiver(TraceServiceServicer):
    """Owner of the file."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._path = file
        self._file = self._anew()

    def _anew(self) -> TextIO:
        """An empty file; what was written before has the name with ``.1`` after it."""
        if self._path.exists():
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        return self._path.open("w")

    async def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:
        """Write one request down."""
        line = await asyncio.to_thread(otlp_json.line, request)
        if self._file.tell() + len(line) > MOST_BYTES:
            self._file.close()
            self._file = self._anew()
        self._file.write(line)
        self._file.flush()
        return ExportTraceServiceResponse()

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()


async def _serve(listen: str, file: Path) -> None:
    stopped = asyncio.create_task(wait_for_signal())
    server = Server(listen, [DESCRIPTOR.services_by_name["TraceService"].full_name], drain_s=1.0)
    receiver = Receiver(file)
    attach: Any = add_TraceServiceServicer_to_server  # its module has no types
    attach(receiver, server.grpc_server)
    await server.start()
    await server.set_serving(True)
    log.info("traces that come to %s are written to %s", listen, file)
    await stopped
    await server.drain()
    receiver.close()


def main() -> int:
    """Run until SIGTERM. Returns the exit code: 2 for an address or a file that cannot be used."""
    parser = argparse.ArgumentParser(description="Receive OTLP traces and write them to a file, one JSON a line.")
    parser.add_argument("--listen", default="127.0.0.1:4317")
    parser.add_argument("--file", type=Path, required=True)
    arguments = parser.parse_args()
    logs.start("receiver", {})
    try:
        uvloop.run(_serve(arguments.listen, arguments.file))
    except OSError as error:
        log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
