"""Ports and addresses of this machine: which are free, and whether somebody serves there."""

import socket

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


async def is_serving(address: str, service: str = "") -> bool:
    """Whether the health check of the server at an address says SERVING."""
    async with grpc.aio.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=1.0)
        except grpc.aio.AioRpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def free_port(host: str) -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
