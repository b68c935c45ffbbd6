"""Stand-ins at the seams: a draft server that answers what a test dictates, and runners that misbehave."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import torch

from draft_service.service import NAME as DRAFT_NAME
from outrider.inference.model import ModelRunner
from outrider.inference.packed import PackedPass
from outrider.server import Server
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc

Script = Callable[[draft_pb2.ProposeRequest], Awaitable[draft_pb2.ProposeResponse]]
"""Answers one round; ``round`` and ``incarnation`` are filled in when it leaves them 0."""

INCARNATION = 77


class ScriptedDraft(draft_pb2_grpc.DraftServiceServicer):
    """A draft that looks like ``info`` in the handshake and answers rounds by a script."""

    def __init__(self, info: common_pb2.ReplicaInfo, script: Script) -> None:
        self.info = common_pb2.ReplicaInfo()
        self.info.CopyFrom(info)
        self.info.incarnation = INCARNATION
        self.script = script
        self.requests: list[draft_pb2.ProposeRequest] = []
        self.released: list[str] = []

    async def Propose(self, requests: Any, context: Any) -> AsyncIterator[draft_pb2.ProposeResponse]:
        async for request in requests:
            self.requests.append(request)
            response = await self.script(request)
            response.round = response.round or request.round
            response.incarnation = response.incarnation or INCARNATION
            yield response

    async def Release(
        self, request: draft_pb2.DraftServiceReleaseRequest, context: Any
    ) -> draft_pb2.DraftServiceReleaseResponse:
        self.released.append(request.release.session_id)
        return draft_pb2.DraftServiceReleaseResponse()

    async def GetReplicaInfo(
        self, request: draft_pb2.DraftServiceGetReplicaInfoRequest, context: Any
    ) -> draft_pb2.DraftServiceGetReplicaInfoResponse:
        return draft_pb2.DraftServiceGetReplicaInfoResponse(info=self.info)


@contextlib.asynccontextmanager
async def serving(draft: ScriptedDraft) -> AsyncIterator[str]:
    """Address of the scripted draft while it serves."""
    server = Server("127.0.0.1:0", [DRAFT_NAME], drain_s=0.0)
    draft_pb2_grpc.add_DraftServiceServicer_to_server(draft, server.grpc_server)
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.drain()


def block(tokens: Sequence[int], cached_len: int = 0, **fields: Any) -> draft_pb2.ProposeResponse:
    """A proposal."""
    return draft_pb2.ProposeResponse(block=draft_pb2.Block(tokens=tokens, cached_len=cached_len), **fields)


def miss(cached_len: int) -> draft_pb2.ProposeResponse:
    """A cache miss."""
    return draft_pb2.ProposeResponse(cache_miss=common_pb2.CacheMiss(cached_len=cached_len))


def after(seconds: float, tokens: Sequence[int]) -> Script:
    """Propose, but only after a while."""

    async def script(request: draft_pb2.ProposeRequest) -> draft_pb2.ProposeResponse:
        await asyncio.sleep(seconds)
        return block(tokens)

    return script


def always(response: draft_pb2.ProposeResponse) -> Script:
    """The same answer to every round."""

    async def script(request: draft_pb2.ProposeRequest) -> draft_pb2.ProposeResponse:
        copy = draft_pb2.ProposeResponse()
        copy.CopyFrom(response)
        return copy

    return script


def failing(error: Exception) -> Script:
    """An error in every round."""

    async def script(request: draft_pb2.ProposeRequest) -> draft_pb2.ProposeResponse:
        raise error

    return script


class WrappedRunner:
    """A runner that passes everything on; the base of those that misbehave."""

    def __init__(self, inner: ModelRunner) -> None:
        self.inner = inner
        self.block_size = inner.block_size
        self.num_blocks = inner.num_blocks
        self.max_positions = inner.max_positions
        self.row_multiple = inner.row_multiple
        self.row_counts: list[int] = []

    def forward(self, plan: PackedPass) -> torch.Tensor:
        self.row_counts.append(plan.rows)
        return self.inner.forward(plan)

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        self.inner.copy_blocks(copies)


class PoisonedRunner(WrappedRunner):
    """Writes ``poison`` into the logits of every position from ``first`` on: all of a row, or one token of it."""

    def __init__(self, inner: ModelRunner, first: int, poison: float, whole_row: bool) -> None:
        super().__init__(inner)
        self._first, self._poison, self._columns = first, poison, slice(None) if whole_row else slice(7, 8)

    def forward(self, plan: PackedPass) -> torch.Tensor:
        logits = super().forward(plan).clone()
        for index, row in enumerate(plan.wanted):
            if plan.positions[row] >= self._first:
                logits[index, self._columns] = self._poison
        return logits


class SlowRunner(WrappedRunner):
    """Each of the next passes takes as long as ``delays`` says; then passes are quick again."""

    def __init__(self, inner: ModelRunner) -> None:
        super().__init__(inner)
        self.delays: list[float] = []
        self.always_s = 0.0

    def forward(self, plan: PackedPass) -> torch.Tensor:
        time.sleep(self.delays.pop(0) if self.delays else self.always_s)
        return super().forward(plan)


class BrokenRunner(WrappedRunner):
    """Fails while ``broken`` is set."""

    broken = False

    def forward(self, plan: PackedPass) -> torch.Tensor:
        if self.broken:
            raise RuntimeError("the accelerator fell off the bus")
        return super().forward(plan)
