"""A draft or target service without a model: ``python -m bench.scripted ROLE ADDRESS``.

Its passes cost nothing, so what remains of a round is the system itself. Everything but the runner is real.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import torch
import uvloop

from draft_service.service import NAME as DRAFT_NAME
from draft_service.service import DraftService
from outrider import telemetry
from outrider.inference.batcher import Batcher
from outrider.inference.engine import Engine
from outrider.inference.packed import PackedPass
from outrider.inference.replica import Replica
from outrider.server import Server, wait_for_signal
from outrider.tokenizer import Tokenizer
from outrider.v1.draft_pb2_grpc import add_DraftServiceServicer_to_server
from outrider.v1.target_pb2_grpc import add_TargetServiceServicer_to_server
from outrider.wire import ReplicaFacts
from target_service.service import NAME as TARGET_NAME
from target_service.service import TargetService

PERIOD = 256


def token_after(position: int) -> int:
    """The token that follows a position: it repeats every PERIOD positions."""
    return position * 31 % PERIOD + 300


class ScriptedRunner:
    """The token after position p is a fixed function of p, certain to the last bit."""

    block_size = 32
    num_blocks = 4096
    max_positions = 8192
    row_multiple = 1

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self._rows = torch.zeros(PERIOD, vocab_size)
        self._rows[range(PERIOD), [token_after(position) for position in range(PERIOD)]] = 1.0

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """One-hot logits of the wanted rows."""
        return self._rows[torch.from_numpy(plan.positions[plan.wanted] % PERIOD)]

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """There is nothing to copy."""


ECHO_METHOD = "/bench.Echo/Echo"


class EchoHandler(grpc.GenericRpcHandler):
    """A bidirectional stream that returns each message: what a round trip costs without Outrider."""

    def service(self, handler_call_details: Any) -> Any:
        """The handler of the one method."""
        if handler_call_details.method != ECHO_METHOD:
            return None
        return grpc.stream_stream_rpc_method_handler(self._echo)

    async def _echo(self, requests: Any, context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request


async def _serve(role: str, address: str, tokenizer_folder: str) -> None:
    tokenizer = Tokenizer.load(tokenizer_folder)
    runner = ScriptedRunner(1024)
    batcher = Batcher()
    engine = await batcher.start(lambda: Engine(runner))
    facts = ReplicaFacts(
        incarnation=1,
        model_id="scripted",
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocab_size=runner.vocab_size,
        eos_token_ids=(),
        max_positions=runner.max_positions,
        row_invariant=True,
        kv_capacity_tokens=runner.num_blocks * runner.block_size,
        max_draft_tokens=16,
        weights="scripted",
    )
    replica = Replica(facts, engine, batcher)
    server = Server(address, [DRAFT_NAME if role == "draft" else TARGET_NAME])
    if role == "draft":
        add_DraftServiceServicer_to_server(DraftService(replica), server.grpc_server)
    else:
        add_TargetServiceServicer_to_server(TargetService(replica), server.grpc_server)
    server.grpc_server.add_generic_rpc_handlers((EchoHandler(),))
    await server.start()
    await server.set_serving(True)
    await wait_for_signal()
    await server.drain()
    batcher.close()


if __name__ == "__main__":
    telemetry.start(sys.argv[1], {})
    uvloop.run(_serve(*sys.argv[1:4]))
