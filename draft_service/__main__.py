"""Entry point of the draft service: ``python -m draft_service``. Reads the environment and nothing else."""

import os
import sys
from typing import Any

from draft_service.service import NAME, DraftService
from outrider import telemetry
from outrider.inference.process import main
from outrider.inference.replica import Replica
from outrider.v1.draft_pb2_grpc import add_DraftServiceServicer_to_server


def _attach(replica: Replica, server: Any) -> None:
    add_DraftServiceServicer_to_server(DraftService(replica), server)


if __name__ == "__main__":
    sys.exit(main("draft", NAME, telemetry.SPAN_DRAFT_FORWARD, _attach, os.environ))
