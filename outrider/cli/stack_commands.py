"""The commands that start services here, and the one that asks whether one serves. They read the environment."""

import enum
import os
from collections.abc import Mapping
from typing import Annotated

import typer

from outrider.cli.command import DEFAULT_ADDRESS, Address, DraftModel, TargetModel, logs_folder, run
from outrider.cli.console import fail
from outrider.cli.demo import demo as run_demo
from outrider.cli.models import chosen_pair
from outrider.cli.ports import is_serving
from outrider.cli.stack import StackOptions
from outrider.cli.synthetic import SyntheticOptions, with_draft
from outrider.cli.up import up as run_up
from outrider.errors import InvalidArgument


class Compile(enum.StrEnum):
    """Values of ``--compile``."""

    OFF = "off"
    AUTO = "auto"
    ON = "on"


class EngineKind(enum.StrEnum):
    """Values of ``--engine``."""

    MODEL = "model"
    SYNTHETIC = "synthetic"


def _refuse_what_one_machine_has_not(environment: Mapping[str, str]) -> None:
    """Exits, naming the first setting that processes which share an environment cannot have."""
    for name, value in environment.items():
        if value and (name.startswith("OUTRIDER_TLS_") or name == "OUTRIDER_HEALTH"):
            fail(
                InvalidArgument(
                    name, "must be unset for `outrider up` and `demo`, whose processes share one environment"
                )
            )


def up(
    target: TargetModel = None,
    draft: DraftModel = None,
    host: Annotated[str, typer.Option(help="Interface to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65000, help="Of the orchestrator; the replicas follow.")] = 50051,
    targets: Annotated[int, typer.Option(min=1, max=16, help="Target processes.")] = 1,
    drafts: Annotated[int, typer.Option(min=1, max=16, help="Draft processes.")] = 1,
    orchestrators: Annotated[int, typer.Option(min=1, max=16, help="Orchestrator processes.")] = 1,
    page: Annotated[
        int, typer.Option(min=-1, max=65000, help="Port of the live page; 0 picks a free one, -1 serves none.")
    ] = 50080,
    observe: Annotated[
        bool, typer.Option("--observe", help="Write all traces to a file, and serve the metrics of each service.")
    ] = False,
    compiled: Annotated[
        Compile | None, typer.Option("--compile", help="Compiled passes; OUTRIDER_COMPILE or auto.")
    ] = None,
    engine: Annotated[
        EngineKind, typer.Option(envvar="OUTRIDER_ENGINE", help="synthetic: no weights, passes of a set time.")
    ] = EngineKind.MODEL,
    synthetic_target: Annotated[
        str | None, typer.Option(metavar="MS", help="Of a target pass: 20, or by rows 1:20,64:40.")
    ] = None,
    synthetic_draft: Annotated[str | None, typer.Option(metavar="MS", help="Of a draft pass.")] = None,
    synthetic_acceptance: Annotated[
        float | None, typer.Option(min=0, max=1, help="Chance that the draft is right.")
    ] = None,
) -> None:
    """Start targets, drafts and orchestrators here, one of each unless told otherwise; Ctrl-C stops them."""
    _refuse_what_one_machine_has_not(os.environ)
    synthetic = engine is EngineKind.SYNTHETIC
    options = SyntheticOptions(synthetic_target, synthetic_draft, synthetic_acceptance)
    try:
        options.check(synthetic)
    except InvalidArgument as error:
        fail(error)
    pair = chosen_pair(target, with_draft(target, draft) if synthetic else draft, os.environ)
    chosen = {} if compiled is None else {"OUTRIDER_COMPILE": compiled.value}
    chosen["OUTRIDER_ENGINE"] = engine.value
    own = options.variables(os.environ) if synthetic else {}
    stack = StackOptions(
        *pair,
        logs=logs_folder(os.environ),
        host=host,
        port=port,
        environment=chosen,
        variables=own,
        targets=targets,
        drafts=drafts,
        orchestrators=orchestrators,
        page_port=page if page >= 0 else None,
        observed=observe,
    )
    run(run_up(stack))


def demo(target: TargetModel = None, draft: DraftModel = None) -> None:
    """Answer four prompts with and without speculation and compare the tokens."""
    _refuse_what_one_machine_has_not(os.environ)
    pair = chosen_pair(target, draft, os.environ)
    if not run(run_demo(*pair, logs=logs_folder(os.environ) / "demo")):
        fail("the tokens differ")


def health(
    address: Address = DEFAULT_ADDRESS,
    service: Annotated[str, typer.Option(help="Such as outrider.v1.TargetService; empty for the whole server.")] = "",
) -> None:
    """Exit with 0 when the service at an address says that it serves. For probes; in the clear."""
    if not run(is_serving(address, service)):
        fail(f"{address} does not serve")
