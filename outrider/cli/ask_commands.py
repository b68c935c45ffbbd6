"""The commands that ask for answers: one prompt, or a conversation. How an answer is shown is theirs to say."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from outrider.cli.answering import answer
from outrider.cli.command import DEFAULT_ADDRESS, MAX_INT, Addresses, ApiKey, Json, MaxNewTokens, run
from outrider.cli.connecting import connect, look
from outrider.cli.console import fail, print_json, stderr, stdout
from outrider.cli.render import LEGEND, RoundPrinter, Vocabulary
from outrider.client import Ask, Client
from outrider.errors import InvalidArgument
from outrider.sampling import MAX_SEED, SamplingParams

T = TypeVar("T")


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


async def _show_text(client: Client, ask: Ask) -> None:
    """The text as it comes."""
    await answer(client, ask, lambda delta: print(delta.text, end="", flush=True))
    print()


async def _show_json(client: Client, ask: Ask) -> None:
    """The finished answer as one line of JSON."""
    print_json((await answer(client, ask)).as_dict())


async def _show_speculation(client: Client, ask: Ask) -> None:
    """Each token coloured by its fate, then what speculation did."""
    printer = RoundPrinter(stdout, Vocabulary.of_model((await look(client)).target.info.model_id))
    result = await answer(client, ask, printer.print)
    print()
    stderr.print(f"{LEGEND}\n{result.summary.line()}, seed {result.seed}", soft_wrap=True)


async def _show(show: Callable[[Client, Ask], Awaitable[None]], address: str, api_key: str, ask: Ask) -> None:
    async with connect(address, api_key, os.environ) as client:
        await look(client)
        await show(client, ask)


def generate(
    prompt: Annotated[str, typer.Argument(help='What to ask; "-" reads standard input.')],
    address: Addresses = DEFAULT_ADDRESS,
    api_key: ApiKey = "",
    raw: Annotated[bool, typer.Option(help="Send the text as it is, not as a chat message.")] = False,
    system: Annotated[str, typer.Option(help="System message.")] = "",
    max_new_tokens: MaxNewTokens = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(min=0, max=MAX_INT, help="0 keeps all.")] = 0,
    top_p: Annotated[float, typer.Option(help="1 keeps all.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="0 keeps all.")] = 0.0,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MAX_SEED, help="Key of the noise; random when not given.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends the answer; can be repeated.")] = None,
    draft_tokens: Annotated[
        int | None,
        typer.Option("--draft-tokens", "-k", min=0, max=MAX_INT, help="Per round; 0 is target-only."),
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
    given: dict[str, Any] = {
        "sampling": params,
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "stop": tuple(stop or ()),
        "draft_tokens": draft_tokens,
    }
    ask = Ask(prompt=text, **given) if raw else Ask.user(text, system, **given)
    show = _show_speculation if show_speculation else _show_json if as_json else _show_text
    run(_show(show, address, api_key, ask))


def chat(
    address: Addresses = DEFAULT_ADDRESS,
    api_key: ApiKey = "",
    system: Annotated[str, typer.Option(help="System message.")] = "",
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    max_new_tokens: MaxNewTokens = None,
) -> None:
    """Talk in one session; an empty line or Ctrl-D ends it."""

    async def work() -> None:
        session_id = ""
        async with connect(address, api_key, os.environ) as client:
            await look(client)
            while line := await _in_daemon_thread(_read_line):
                ask = Ask.user(
                    line,
                    "" if session_id else system,
                    sampling=SamplingParams(temperature),
                    max_new_tokens=max_new_tokens,
                    session_id=session_id,
                    keep_session=True,
                )
                result = await answer(client, ask, lambda delta: print(delta.text, end="", flush=True))
                session_id = result.session_id
                print()
                stderr.print(f"[dim]{result.summary.line()}[/dim]", soft_wrap=True)

    run(work())


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
