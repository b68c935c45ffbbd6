"""The ``outrider`` command: all its commands, and those that look before anything is asked. Reads the environment."""

import os
from typing import Annotated

import typer

from outrider.cli.ask_commands import chat, generate
from outrider.cli.command import DEFAULT_ADDRESS, Addresses, ApiKey, Json, run
from outrider.cli.connecting import connect, look
from outrider.cli.console import EXIT_FAILED, print_json, stderr, stdout
from outrider.cli.doctor import local_findings, remote_findings
from outrider.cli.look_commands import top, trace
from outrider.cli.measure import measure
from outrider.cli.models import prepare_default
from outrider.cli.plan import print_plan
from outrider.cli.plan_numbers import Given
from outrider.cli.replicas import replica_reasons, replica_rows, replica_table
from outrider.cli.stack_commands import demo, health, up
from outrider.home import models_folder
from outrider.v1.orchestrator_pb2 import GetInfoResponse

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Speculative decoding as microservices.")
models = typer.Typer(no_args_is_help=True, help="Model folders.")
app.add_typer(models, name="models")
for command in (up, demo, generate, chat, top, trace):
    app.command()(command)


@app.command("plan")
def plan_command(
    t_draft: Annotated[str | None, typer.Option(help="Milliseconds of a draft pass: 2, or by rows 1:2,16:3.")] = None,
    t_verify: Annotated[str | None, typer.Option(help="Of a target pass, alike: 1:20,16:22.")] = None,
    acceptance: Annotated[
        str | None, typer.Option(help="Of each draft token: 0.8; or at positions 1, 2, ...: 0.8,0.65,0.5.")
    ] = None,
    rtt_draft: Annotated[float | None, typer.Option(help="Milliseconds of a round trip to the draft.")] = None,
    rtt_target: Annotated[float | None, typer.Option(help="And to the target.")] = None,
    sessions: Annotated[int, typer.Option(min=1, max=4096, help="Answers that share both.")] = 1,
    max_draft_tokens: Annotated[int, typer.Option(min=1, max=64, help="Longest block to look at.")] = 16,
    address: Annotated[
        str | None, typer.Option(help="Orchestrator of a live stack that what is not given is measured on.")
    ] = None,
    api_key: ApiKey = "",
    as_json: Json = False,
) -> None:
    """Say what speculation would gain, from given numbers or from a live stack."""
    given = Given(t_draft, t_verify, acceptance, rtt_draft, rtt_target, sessions, max_draft_tokens)

    async def work() -> None:
        live = None
        if address is not None:
            async with connect(address, api_key, os.environ) as client:
                live = await measure(client, max_draft_tokens)
        print_plan(given, live, as_json)

    run(work())


@models.command("prepare")
def prepare() -> None:
    """Make the default pair: SmolLM2-135M-Instruct and its distilled draft."""
    prepare_default(os.environ)
    stderr.print(f"the default pair is in {models_folder(os.environ)}")


app.command()(health)


@app.command()
def replicas(address: Addresses = DEFAULT_ADDRESS, api_key: ApiKey = "", as_json: Json = False) -> None:
    """List the targets and drafts that an orchestrator knows. Exit code 1 when no target is ready."""

    async def ask() -> GetInfoResponse:
        async with connect(address, api_key, os.environ) as client:
            return await look(client)

    rows = replica_rows(run(ask()))
    if as_json:
        print_json(rows)
    else:
        stdout.print(replica_table(rows))
        for reason in replica_reasons(rows):
            stdout.print(reason, markup=False)
    if not any(row["role"] == "target" and row["state"] == "ready" for row in rows):
        raise typer.Exit(EXIT_FAILED)


@app.command()
def doctor(address: Addresses = DEFAULT_ADDRESS, api_key: ApiKey = "", as_json: Json = False) -> None:
    """Say what is installed, reachable and compatible. Exit code 1 when something is wrong."""
    findings = local_findings(os.environ) + run(remote_findings(address, api_key, os.environ))
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        marks = {True: "[green]ok  [/green]", False: "[red]bad [/red]", None: "    "}
        for finding in findings:
            stdout.print(f"{marks[finding.ok]} [bold]{finding.topic}[/bold] ", end="")
            stdout.print(finding.detail, markup=False)
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(EXIT_FAILED)
