"""Entry point of the draft service: ``python -m draft_service``. Reads the environment and nothing else.

Its default of OUTRIDER_QUEUE_S is short: a session that gets no room here is served by the target alone, and
whoever waits for a guess waits longer than the guess is worth.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from draft_service.service import NAME, DraftService
from outrider import semconv
from outrider.inference.process import main
from outrider.inference.replica import Replica
from outrider.replica_config import DraftConfig
from outrider.v1.draft_pb2_grpc import add_DraftServiceServicer_to_server


def _attach(replica: Replica, server: Any) -> None:
    add_DraftServiceServicer_to_server(DraftService(replica), server)


def run(environment: Mapping[str, str]) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    own = {"OUTRIDER_QUEUE_S": "0.2", **environment}
    return main("draft", NAME, semconv.SPAN_DRAFT_FORWARD, _attach, own, DraftConfig)


if __name__ == "__main__":
    sys.exit(run(os.environ))
