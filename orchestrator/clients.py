"""Single calls to draft and target: the handshake, and the release of a session. They keep nothing."""

import asyncio
from typing import Any

import grpc

from outrider.errors import DeadlineExceeded, ProtocolViolation
from outrider.status import from_rpc_error
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc, target_pb2, target_pb2_grpc
from outrider.wire import ReplicaFacts, facts_from_pb

_HANDSHAKE_S = 2.0
_LATE_S = 1.0
"""How late gRPC may be with the end of a call. A member whose handshake never ended would never be asked again."""


async def draft_facts(channel: grpc.aio.Channel) -> ReplicaFacts:
    """Handshake with a draft. Raises OutriderError."""
    return await _handshake(draft_pb2_grpc.DraftServiceStub(channel), draft_pb2.DraftServiceGetReplicaInfoRequest())


async def target_facts(channel: grpc.aio.Channel) -> ReplicaFacts:
    """Handshake with a target. Raises OutriderError."""
    return await _handshake(target_pb2_grpc.TargetServiceStub(channel), target_pb2.TargetServiceGetReplicaInfoRequest())


async def _handshake(stub: Any, request: Any) -> ReplicaFacts:
    try:
        async with asyncio.timeout(_HANDSHAKE_S + _LATE_S):
            response = await stub.GetReplicaInfo(request, timeout=_HANDSHAKE_S)
    except TimeoutError:
        raise DeadlineExceeded("the handshake did not end") from None
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
    if response is None:
        raise ProtocolViolation("a handshake that cannot be parsed")
    return facts_from_pb(response.info)


async def release_draft(channel: grpc.aio.Channel, session_id: str, tenant: str) -> None:
    """Free a session's cache at a draft. Raises OutriderError."""
    release = common_pb2.ReleaseRequest(session_id=session_id, tenant=tenant)
    await _release(draft_pb2_grpc.DraftServiceStub(channel), draft_pb2.DraftServiceReleaseRequest(release=release))


async def release_target(channel: grpc.aio.Channel, session_id: str, tenant: str) -> None:
    """Free a session's cache at a target. Raises OutriderError."""
    release = common_pb2.ReleaseRequest(session_id=session_id, tenant=tenant)
    await _release(target_pb2_grpc.TargetServiceStub(channel), target_pb2.TargetServiceReleaseRequest(release=release))


async def _release(stub: Any, request: Any) -> None:
    try:
        await stub.Release(request, timeout=_HANDSHAKE_S)
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
