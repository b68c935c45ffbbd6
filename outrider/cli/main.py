"""The commands and their options. Reads the environment; everything else is in the modules beside it."""

import asyncio
import enum
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from outrider.cli.answering import answer
from outrider.cli.client import Ask, connect
from outrider.cli.console import EXIT_FAILED, fail, print_json, stderr, stdout
from outrider.cli.demo import demo as run_demo
from outrider.cli.doctor import local_findings, remote_findings
from outrider.cli.measure import measure
from outrider.cli.models import chosen_pair, prepare_default
from outrider.cli.plan import print_plan
from outrider.cli.plan_numbers import Given
from outrider.cli.render import LEGEND, RoundPrinter, Vocabulary
from outrider.cli.stack import StackError, StackOptions, is_serving
from outrider.cli.synthetic import SyntheticOptions, with_draft
from outrider.cli.up import up as run_up
from outrider.errors import InvalidArgument, OutriderError
from outrider.home import models_folder
from outrider.sampling import MAX_SEED, SamplingParams

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Speculative decoding as microservices.")
models = typer.Typer(no_args_is_help=True, help="Model folders.")
app.add_typer(models, name="models")

T = TypeVar("T")
DEFAULT_ADDRESS = "127.0.0.1:50051"
_MAX_INT = 2**31 - 1
Address = Annotated[str, typer.Option(envvar="OUTRIDER_ADDRESS", help="Address of the orchestrator.")]
MaxNewTokens = Annotated[
    int | None, typer.Option("--max-new-tokens", "-n", max=_MAX_INT, help="Most tokens of an answer.")
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
TargetModel = Annotated[
    str | None,
    typer.Option("--target", envvar="OUTRIDER_TARGET_MODEL", help="Folder of the target."),
]
DraftModel = Annotated[
    str | None,
    typer.Option("--draft", envvar="OUTRIDER_DRAFT_MODEL", help='Folder of the draft, or "none".'),
]


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine; errors become messages and exit codes, and SIGTERM ends it like Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return asyncio.run(work)
    except (OutriderError, StackError) as error:
        fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _logs() -> Path:
    return models_folder(os.environ).parent / "logs"


class Compile(enum.StrEnum):
    """Values of ``--compile``."""

    OFF = "off"
    AUTO = "auto"
    ON = "on"


class EngineKind(enum.StrEnum):
    """Values of ``--engine``."""

    MODEL = "model"
    SYNTHETIC = "synthetic"


@app.command()
def up(
    target: TargetModel = None,
    draft: DraftModel = None,
    host: Annotated[str, typer.Option(help="Interface to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65533, help="Of the orchestrator; the replicas follow.")] = 50051,
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
    """Start target, draft and orchestrator here, and stop them on Ctrl-C."""
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
    _run(run_up(StackOptions(*pair, logs=_logs(), host=host, port=port, environment=chosen, variables=own)))


@app.command()
def demo(target: TargetModel = None, draft: DraftModel = None) -> None:
    """Answer four prompts with and without speculation and compare the tokens."""
    pair = chosen_pair(target, draft, os.environ)
    if not _run(run_demo(*pair, logs=_logs() / "demo")):
        fail("the tokens differ")


def _prompt_text(prompt: str) -> str:
    """The prompt, or standard input for "-". Exits when it is no text."""
    try:
        text = sys.stdin.buffer.read().decode() if prompt == "-" else prompt
        text.encode()
    except UnicodeError:
        fail(InvalidArgument("prompt", "is not UTF-8 text"))
    if not text:
        fail(InvalidArgument("prompt", "must not be empty"))
    return text


async def _show_text(address: str, ask: Ask) -> None:
    """The text as it comes."""
    async with connect(address) as client:
        await answer(client, ask, lambda delta: print(delta.text, end="", flush=True))
    print()


async def _show_json(address: str, ask: Ask) -> None:
    """The finished answer as one line of JSON."""
    async with connect(address) as client:
        print_json((await answer(client, ask)).as_dict())


async def _show_speculation(address: str, ask: Ask) -> None:
    """Each token coloured by its fate, then what speculation did."""
    async with connect(address) as client:
        printer = RoundPrinter(stdout, Vocabulary.of_model((await client.info()).target.info.model_id))
        result = await answer(client, ask, printer.print)
    print()
    stderr.print(f"{LEGEND}\n{result.summary.line()}, seed {result.seed}", soft_wrap=True)


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help='What to ask; "-" reads standard input.')],
    address: Address = DEFAULT_ADDRESS,
    raw: Annotated[bool, typer.Option(help="Send the text as it is, not as a chat message.")] = False,
    system: Annotated[str, typer.Option(help="System message.")] = "",
    max_new_tokens: MaxNewTokens = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(min=0, max=_MAX_INT, help="0 keeps all.")] = 0,
    top_p: Annotated[float, typer.Option(help="1 keeps all.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="0 keeps all.")] = 0.0,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MAX_SEED, help="Key of the noise; random when not given.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends the answer; can be repeated.")] = None,
    draft_tokens: Annotated[
        int | None,
        typer.Option("--draft-tokens", "-k", min=0, max=_MAX_INT, help="Per round; 0 is target-only."),
    ] = None,
    show_speculation: Annotated[bool, typer.Option(help="Colour tokens by their fate and print statistics.")] = False,
    as_json: Json = False,
) -> None:
    """Answer one prompt, streaming."""
    if raw and system:
        fail(InvalidArgument("--system", "has no place in a --raw prompt"))
    if show_speculation and as_json:
        fail(InvalidArgument("--show-speculation", "cannot be combined with --json"))
    text = _prompt_text(prompt)

    try:
        params = SamplingParams(temperature, top_k, top_p, min_p)
    except InvalidArgument as error:
        fail(error)
    ask = Ask(text, raw, system, params, seed, max_new_tokens, tuple(stop or ()), draft_tokens)
    show = _show_speculation if show_speculation else _show_json if as_json else _show_text
    _run(show(address, ask))


@app.command()
def chat(
    address: Address = DEFAULT_ADDRESS,
    system: Annotated[str, typer.Option(help="System message.")] = "",
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    max_new_tokens: MaxNewTokens = None,
) -> None:
    """Talk in one session; an empty line or Ctrl-D ends it."""

    async def work() -> None:
        session_id = ""
        async with connect(address) as client:
            await client.info()
            while line := await _in_daemon_thread(_read_line):
                ask = Ask(
                    line,
                    system="" if session_id else system,
                    params=SamplingParams(temperature),
                    max_new_tokens=max_new_tokens,
                    session_id=session_id,
                    keep_session=True,
                )
                result = await answer(client, ask, lambda delta: print(delta.text, end="", flush=True))
                session_id = result.session_id
                print()
                stderr.print(f"[dim]{result.summary.line()}[/dim]", soft_wrap=True)

    _run(work())


async def _in_daemon_thread(function: Callable[[], T]) -> T:
    """Await a blocking call that may never return: a Ctrl-C must not wait for the line that nobody types."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(result.set_result, function()), daemon=True).start()
    return await result


def _read_line() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""


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
    as_json: Json = False,
) -> None:
    """Say what speculation would gain, from given numbers or from a live stack."""
    given = Given(t_draft, t_verify, acceptance, rtt_draft, rtt_target, sessions, max_draft_tokens)

    async def work() -> None:
        live = None
        if address is not None:
            async with connect(address) as client:
                live = await measure(client, max_draft_tokens)
        print_plan(given, live, as_json)

    _run(work())


@models.command("prepare")
def prepare() -> None:
    """Make the default pair: SmolLM2-135M-Instruct and its distilled draft."""
    prepare_default(os.environ)
    stderr.print(f"the default pair is in {models_folder(os.environ)}")


@app.command()
def health(address: Address = DEFAULT_ADDRESS) -> None:
    """Exit with 0 when the service at an address says that it serves. For probes."""
    if not _run(is_serving(address)):
        fail(f"{address} does not serve")


@app.command()
def doctor(address: Address = DEFAULT_ADDRESS, as_json: Json = False) -> None:
    """Say what is installed, reachable and compatible. Exit code 1 when something is wrong."""
    findings = local_findings(os.environ) + _run(remote_findings(address))
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        marks = {True: "[green]ok  [/green]", False: "[red]bad [/red]", None: "    "}
        for finding in findings:
            stdout.print(f"{marks[finding.ok]} [bold]{finding.topic}[/bold] ", end="")
            stdout.print(finding.detail, markup=False)
    if any(finding.ok is False for finding in findings):
        raise typer.Exit(EXIT_FAILED)
