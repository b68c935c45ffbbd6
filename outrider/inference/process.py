"""The life of a model process: load, listen, serve, drain. It does not know which service it runs."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import uvloop

from outrider import config as configuration
from outrider import expiry, logs, metric_settings, telemetry
from outrider.announcing import Announcer, advertised
from outrider.credentials import server_credentials
from outrider.errors import OutriderError
from outrider.inference.replica import Replica, load_replica
from outrider.interceptor import calls
from outrider.redis_calls import check_url
from outrider.registry import Announcement, Registry
from outrider.replica_config import ReplicaConfig
from outrider.server import Server, wait_for_signal
from outrider.tasks import end
from outrider.tls import TlsFiles

log = logging.getLogger(__name__)
Attach = Callable[[Replica, Any], None]
"""Adds the service of a loaded replica to a gRPC server."""


def _registry(config: ReplicaConfig) -> Registry | None:
    """None where there is none. Raises ValueError for what could not be announced, before a model is loaded for it."""
    if not config.registry:
        return None
    advertised(config.listen, 0, config.advertise)
    check_url("OUTRIDER_REGISTRY", config.registry)
    return Registry(config.registry)


def _announcer(registry: Registry, config: ReplicaConfig, role: str, replica: Replica, port: int) -> Announcer:
    facts = replica.facts
    address = advertised(config.listen, port, config.advertise)
    announcement = Announcement(role, address, facts.incarnation, facts.model_id, facts.kv_capacity_tokens)
    return Announcer(registry, announcement, config.lease_s)


def _server(config: ReplicaConfig, service_name: str, files: TlsFiles | None) -> Server:
    return Server(
        config.listen,
        [service_name],
        config.max_streams,
        config.drain_s,
        credentials=server_credentials(files, need_certificate=True) if files else None,
        peers=config.peers,
        health_listen=config.health,
    )


async def _serve(config: ReplicaConfig, role: str, service_name: str, span_name: str, attach: Attach) -> None:
    registry, files = _registry(config), config.tls()
    stopped = asyncio.create_task(wait_for_signal())
    loading = asyncio.create_task(load_replica(config, span_name))
    await asyncio.wait({stopped, loading}, return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        log.info("%s while loading; stopping", stopped.result())
        return
    replica = await loading
    server = _server(config, service_name, files)
    attach(replica, server.grpc_server)
    metric_settings.export([calls, *expiry.instruments(files)])
    watching = asyncio.create_task(expiry.follow(files), name="certificates")
    await server.start()
    announcer = _announcer(registry, config, role, replica, server.port) if registry is not None else None
    await server.set_serving(True)
    log.info("%s serves on %s", service_name, config.listen)
    if announcer is not None:
        announcer.start()
    log.info("%s; draining for up to %g s", await stopped, config.drain_s)
    if announcer is not None:
        await announcer.stop()
    await end(watching)
    await server.drain()
    await replica.close()


def main(
    role: str,
    service_name: str,
    span_name: str,
    attach: Attach,
    environment: Mapping[str, str],
    kind: type[ReplicaConfig] = ReplicaConfig,
) -> int:
    """Run a model process until SIGTERM. Returns its exit code: 2 for a configuration that cannot work."""
    try:
        logs.start(role, environment)
        telemetry.start(role, environment)
        uvloop.run(_serve(configuration.load(kind, environment), role, service_name, span_name, attach))
    except (ValueError, OSError, OutriderError) as error:
        log.error("%s", error)
        return 2
    finally:
        telemetry.flush()
    return 0
