"""The services of one machine as processes: which there are, with which variables, started and stopped in order.

It does not know what the services do.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outrider.cli.observing import observe, serve_page
from outrider.cli.ports import free_port
from outrider.cli.service import Service

_SPIN_COUNT = "20000"
"""GOMP_SPINCOUNT of model processes that share cores: an idle pool that spins for milliseconds after its
pass takes a core from the other model (measured: a fifth of the speed of speculation on 2 cores)."""


@dataclass(frozen=True, slots=True)
class StackOptions:
    """Which models, where to listen (port 0 picks free ones), where logs go, and variables to pass on: to all
    services, and to those of a role. How many of each there are. ``page_port``: of the live page (0 picks a free one,
    None serves none); ``observed``: whether traces and metrics are to be had.

    ``draft`` None runs without a draft service.
    """

    target: str
    draft: str | None
    logs: Path
    host: str = "127.0.0.1"
    port: int = 50051
    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    targets: int = 1
    drafts: int = 1
    orchestrators: int = 1
    page_port: int | None = None
    observed: bool = False


def _names(role: str, count: int) -> list[str]:
    return [role, *(f"{role}-{number}" for number in range(2, count + 1))][:count]


def _addresses(options: StackOptions) -> dict[str, dict[str, str]]:
    """By role and name. The first of each role has the first three ports, so that more of one move none of another."""
    counts = {
        "orchestrator": options.orchestrators,
        "target": options.targets,
        "draft": options.drafts if options.draft else 0,
    }
    names = {role: _names(role, count) for role, count in counts.items()}
    order = [*counts, *(name for each in names.values() for name in each[1:])]
    ports = [free_port(options.host) if options.port == 0 else options.port + place for place in range(len(order))]
    at = {name: f"{options.host}:{port}" for name, port in zip(order, ports, strict=True)}
    return {role: {name: at[name] for name in each} for role, each in names.items()}


def model_service(
    name: str, model: str, address: str, logs: Path, variables: Mapping[str, str], module: str = ""
) -> Service:
    """A model process, of the module that its name says unless another is named."""
    own = {**variables, "OUTRIDER_MODEL": model, "OUTRIDER_LISTEN": address}
    defaults = {"GOMP_SPINCOUNT": _SPIN_COUNT}
    return Service(name, module or f"{name}_service", address, logs / f"{name}.log", own, defaults)


def orchestrator_service(
    name: str, address: str, target: str, draft: str, tokenizer: str, logs: Path, variables: Mapping[str, str]
) -> Service:
    """An orchestrator over replicas at addresses, separated by commas; an empty one of the draft is none."""
    own = {
        **variables,
        "OUTRIDER_LISTEN": address,
        "OUTRIDER_TARGET": target,
        "OUTRIDER_DRAFT": draft,
        "OUTRIDER_TOKENIZER": tokenizer,
    }
    return Service(name, "orchestrator", address, logs / f"{name}.log", own)


def services(options: StackOptions) -> list[Service]:
    """The processes of a stack: a receiver of traces if any, replicas, orchestrators, the first of them last."""
    addresses, logs = _addresses(options), options.logs
    targets, drafts = addresses["target"], addresses["draft"]
    own = {role: options.variables.get(role, {}) for role in addresses}
    models = [("target", options.target), ("draft", options.draft or "")]
    replicas = [
        model_service(name, model, address, logs, own[role], f"{role}_service")
        for role, model in models
        for name, address in addresses[role].items()
    ]
    orchestrators = [
        orchestrator_service(
            name,
            address,
            ",".join(targets.values()),
            ",".join(drafts.values()),
            options.target,
            logs,
            own["orchestrator"],
        )
        for name, address in addresses["orchestrator"].items()
    ]
    stack = [*replicas, *reversed(orchestrators)]
    if options.page_port is not None:
        serve_page(orchestrators, options.host, options.page_port)
    return [observe(stack, options.host, logs, options.port == 0), *stack] if options.observed else stack


@asynccontextmanager
async def started(stack: list[Service], environment: Mapping[str, str]) -> AsyncGenerator[list[Service], None]:
    """The processes, started in order; stopped when the block ends, the last first, and killed if that is cut short."""
    try:
        for service in stack:
            await service.start(environment)
        try:
            yield stack
        finally:
            for service in reversed(stack):
                await service.stop()
    finally:
        for service in stack:
            service.kill()


@asynccontextmanager
async def running(options: StackOptions) -> AsyncGenerator[list[Service], None]:
    """The processes of a stack, clients' side stopped first."""
    async with started(services(options), {**os.environ, **options.environment}) as stack:
        yield stack
