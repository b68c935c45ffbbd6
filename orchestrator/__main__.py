"""Entry point of the orchestrator: ``python -m orchestrator``. Reads the environment and nothing else."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping

import uvloop

from orchestrator.config import OrchestratorConfig
from orchestrator.journal import Journal
from orchestrator.journal_store import JournalStore
from orchestrator.membership import Membership
from orchestrator.pools import Pools
from orchestrator.service import NAME, OrchestratorService
from orchestrator.tenants import Tenants
from orchestrator.web.app import application
from orchestrator.web.guard import is_loopback
from orchestrator.web.server import WebServer
from outrider import config as configuration
from outrider import expiry, logs, metric_settings, telemetry
from outrider.credentials import Dialer, server_credentials
from outrider.interceptor import calls
from outrider.redis_calls import check_url
from outrider.registry import Registry
from outrider.server import Server, wait_for_signal
from outrider.tasks import end
from outrider.tls import TlsFiles
from outrider.tokenizer import Tokenizer
from outrider.v1.orchestrator_pb2_grpc import add_OrchestratorServiceServicer_to_server

log = logging.getLogger("orchestrator")
_HEALTH_S = 0.2
_LEAVE_S = 1.0
"""Beyond the drain time, for answers to say that another orchestrator can go on with them."""


async def _mirror_health(server: Server, pools: Pools) -> None:
    """Serve exactly while a target can be used."""
    serving = False
    while True:
        if serving is not pools.targets.ready:
            serving = not serving
            await server.set_serving(serving)
        await asyncio.sleep(_HEALTH_S)


def _pages(config: OrchestratorConfig, service: OrchestratorService, tenants: Tenants) -> list[WebServer]:
    """The live page, where it is wanted. Raises ConfigError."""
    if config.page_address is None:
        return []
    host, port = config.page_address
    app = application(service, tenants, local=is_loopback(host))
    return [WebServer(app, host, port, config.max_streams, config.drain_s + _LEAVE_S)]


def _warn_of_an_open_door(config: OrchestratorConfig, tenants: Tenants) -> None:
    if config.tls_clients == "any" and tenants.open:
        log.warning("OUTRIDER_TLS_CLIENTS=any without API keys in OUTRIDER_TENANTS: whoever gets here may use it")


def _server(config: OrchestratorConfig, files: TlsFiles | None) -> Server:
    return Server(
        config.listen,
        [NAME],
        config.max_streams,
        config.drain_s + _LEAVE_S,
        credentials=server_credentials(files, config.tls_clients == "certificate") if files else None,
        peers=config.peers,
        health_listen=config.health,
    )


async def _serve(config: OrchestratorConfig) -> None:
    stopped = asyncio.create_task(wait_for_signal())
    for setting, url in (("OUTRIDER_REGISTRY", config.registry), ("OUTRIDER_JOURNAL", config.journal)):
        if url:
            check_url(setting, url)
    tenants = Tenants.load(config.tenants) if config.tenants else Tenants.none()
    _warn_of_an_open_door(config, tenants)
    tokenizer = Tokenizer.load(config.tokenizer)
    files = config.tls()
    dialers = (Dialer(files, config.tls_target_name), Dialer(files, config.tls_draft_name))
    pools = Pools(tokenizer, config.lease_s, *dialers)
    registry = Registry(config.registry) if config.registry else None
    membership = Membership(pools, config.targets, config.drafts, registry)
    store = JournalStore(config.journal) if config.journal else None
    journal = Journal(store, config.resume_s, config.session_ttl_s)
    service = OrchestratorService(config, pools, tokenizer, journal, tenants)
    server = _server(config, files)
    add_OrchestratorServiceServicer_to_server(service, server.grpc_server)
    pages = _pages(config, service, tenants)
    metric_settings.export([*service.looking.instruments(), calls, *expiry.instruments(files)])
    for page in pages:
        await page.start()
    await server.start()
    await membership.refresh()
    work = (_mirror_health(server, pools), service.sweep(), membership.follow(), expiry.follow(files))
    background = [asyncio.create_task(each) for each in work]
    writing = asyncio.create_task(journal.follow())
    log.info("%s listens on %s; targets %s; drafts %s", NAME, config.listen, *membership.named)
    for page in pages:
        log.info("live page: %s", page.url)
    log.info("%s; draining for up to %g s", await stopped, config.drain_s)
    await end(*background)
    service.leave(config.drain_s)
    await asyncio.gather(server.drain(), *(page.stop() for page in pages))
    await end(writing)
    await journal.close()
    await asyncio.to_thread(service.close)
    await pools.close()
    await membership.close()


def main(environment: Mapping[str, str]) -> int:
    """Run until SIGTERM. Returns the exit code: 2 for a configuration that cannot work."""
    try:
        logs.start("orchestrator", environment)
        telemetry.start("orchestrator", environment)
        uvloop.run(_serve(configuration.load(OrchestratorConfig, environment)))
    except (ValueError, OSError) as error:
        log.error("%s", error)
        return 2
    finally:
        telemetry.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
