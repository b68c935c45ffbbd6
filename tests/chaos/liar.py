"""A draft that lies: ``python -m tests.chaos.liar``. It looks like the draft whose place it takes and answers rounds
with wrong ids, ids that do not exist, blocks that are too long, wrong rounds, wrong counts, stale incarnations, answers
that nobody asked for, answers that come late, and none.
"""

import asyncio
import contextlib
import os
import random
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from outrider.announcing import Announcer
from outrider.errors import OutriderError
from outrider.registry import Announcement, Registry
from outrider.server import Server, wait_for_signal
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc

NAME = draft_pb2.DESCRIPTOR.services_by_name["DraftService"].full_name
INFO, SEED = "CHAOS_INFO", "CHAOS_SEED"
"""Variables: a ReplicaInfo in hexadecimal, and what the lies follow from."""

Response = draft_pb2.ProposeResponse
Lie = Callable[[random.Random, draft_pb2.ProposeRequest, Response], None]


def _block(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    """Well-formed, and wrong."""
    response.block.tokens.extend(draw.randrange(4, 300) for _ in range(max(1, request.max_draft_tokens)))
    response.block.cached_len = request.prefix_len + len(request.tokens)


def _unknown_ids(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    response.block.tokens.extend([draw.randrange(1 << 20, 1 << 32)])


def _too_many(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    response.block.tokens.extend([5] * draw.choice((request.max_draft_tokens + 1, 5000)))


def _cached_len(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    _block(draw, request, response)
    response.block.cached_len = draw.choice((0, 1 << 31))


def _miss(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    response.cache_miss.cached_len = request.prefix_len + draw.choice((0, 1, 1 << 30))


def _round(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    _block(draw, request, response)
    response.round = request.round + draw.choice((1, 7)) if request.round == 0 else request.round - 1


def _incarnation(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    _block(draw, request, response)
    response.incarnation -= 1


def _continuations(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    response.continuations.continuations.add(num_accepted=draw.choice((0, 99)), next_token=9, tokens=[4, 5, 6])


def _nothing(draw: random.Random, request: draft_pb2.ProposeRequest, response: Response) -> None:
    """No outcome at all."""


LIES: tuple[Lie, ...] = (
    *(_block,) * 12,
    _unknown_ids,
    _too_many,
    _cached_len,
    _miss,
    _round,
    _incarnation,
    _continuations,
    _nothing,
)
_LATE_S = 1.5


class Liar(draft_pb2_grpc.DraftServiceServicer):
    """Its lies follow from its seed."""

    def __init__(self, info: common_pb2.ReplicaInfo, seed: int) -> None:
        self._info = info
        self._draw = random.Random(seed)

    async def Propose(self, requests: Any, context: Any) -> AsyncIterator[Response]:
        async for request in requests:
            response = Response(round=request.round, incarnation=self._info.incarnation)
            self._draw.choice(LIES)(self._draw, request, response)
            if self._draw.random() < 0.03:
                raise OutriderError("a lie")
            if self._draw.random() < 0.03:
                await asyncio.sleep(_LATE_S)
            yield response
            if self._draw.random() < 0.05:
                yield response

    async def Release(
        self, request: draft_pb2.DraftServiceReleaseRequest, context: Any
    ) -> draft_pb2.DraftServiceReleaseResponse:
        return draft_pb2.DraftServiceReleaseResponse()

    async def GetReplicaInfo(
        self, request: draft_pb2.DraftServiceGetReplicaInfoRequest, context: Any
    ) -> draft_pb2.DraftServiceGetReplicaInfoResponse:
        return draft_pb2.DraftServiceGetReplicaInfoResponse(info=self._info)


async def _serve() -> None:
    variables = os.environ
    info = common_pb2.ReplicaInfo.FromString(bytes.fromhex(variables[INFO]))
    info.incarnation = secrets.randbits(64)
    server = Server(variables["OUTRIDER_LISTEN"], [NAME], drain_s=0.0)
    draft_pb2_grpc.add_DraftServiceServicer_to_server(Liar(info, int(variables[SEED])), server.grpc_server)
    await server.start()
    await server.set_serving(True)
    announced = Announcement(
        "draft", variables["OUTRIDER_ADVERTISE"], info.incarnation, info.model_id, info.kv_capacity_tokens
    )
    announcer = Announcer(Registry(variables["OUTRIDER_REGISTRY"]), announced, float(variables["OUTRIDER_LEASE_S"]))
    announcer.start()
    await wait_for_signal()
    await announcer.stop()
    await server.drain()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
    sys.exit(0)
