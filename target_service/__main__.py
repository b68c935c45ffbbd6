"""Entry point of the target service: ``python -m target_service``. Reads the environment and nothing else."""

import os
import sys
from typing import Any

from outrider import semconv
from outrider.inference.process import main
from outrider.inference.replica import Replica
from outrider.v1.target_pb2_grpc import add_TargetServiceServicer_to_server
from target_service.service import NAME, TargetService


def _attach(replica: Replica, server: Any) -> None:
    add_TargetServiceServicer_to_server(TargetService(replica), server)


if __name__ == "__main__":
    sys.exit(main("target", NAME, semconv.SPAN_TARGET_FORWARD, _attach, os.environ))
