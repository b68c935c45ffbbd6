"""``outrider demo``: four prompts, each with speculation and target-only; the tokens must be identical."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE
from rich.table import Table

from outrider.cli.answering import Answered, answer
from outrider.cli.connecting import connect
from outrider.cli.console import print_result, stdout
from outrider.cli.observing import whereabouts
from outrider.cli.render import LEGEND, RoundPrinter, Vocabulary
from outrider.cli.stack import StackOptions, running
from outrider.cli.up import check_pair, wait_all
from outrider.client import Ask, Client, Delta

PROMPTS = (
    ("short question", "What is the capital of France?"),
    ("long explanation", "Explain step by step how a rainbow forms, and why its colours are always in the same order."),
    ("code", "Write a Python function that checks whether a number is prime, and explain how it works."),
    ("domain question", "What does a database index do, and when does it make a query slower?"),
)
_MAX_NEW_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Pair:
    """One prompt's two answers."""

    title: str
    speculative: Answered
    alone: Answered

    @property
    def identical(self) -> bool:
        """Whether every token is the same."""
        return self.speculative.token_ids == self.alone.token_ids

    @property
    def speedup(self) -> float:
        """Time of the target alone over time with speculation."""
        return self.alone.summary.seconds / self.speculative.summary.seconds


async def _ask_both(client: Client, vocabulary: Vocabulary, title: str, text: str, alone_first: bool) -> Pair:
    """Both answers of a prompt; which comes first alternates, so that neither always meets a warm cache."""
    ask = Ask.user(text, max_new_tokens=_MAX_NEW_TOKENS)
    off = Ask.user(text, max_new_tokens=_MAX_NEW_TOKENS, draft_tokens=0)
    alone = await answer(client, off) if alone_first else None
    stdout.print(f"\n[bold]{title}:[/bold] {text}")
    speculative = await answer(client, ask, _shower(vocabulary))
    stdout.print("")
    return Pair(title, speculative, alone or await answer(client, off))


def _shower(vocabulary: Vocabulary) -> Callable[[Delta], None]:
    """Colours where there are any; marks in plain text would hide the answer."""
    if stdout.color_system:
        return RoundPrinter(stdout, vocabulary).print
    return lambda delta: print(delta.text, end="", flush=True)


def _print_table(pairs: list[Pair]) -> None:
    table = Table("prompt", "tokens", "same", "alone", "with draft", "speed-up", "accepted", "length", box=SIMPLE)
    for pair in pairs:
        spec, alone = pair.speculative.summary, pair.alone.summary
        table.add_row(
            pair.title,
            str(spec.tokens),
            "yes" if pair.identical else "NO",
            f"{alone.tokens_per_s:.1f}/s",
            f"{spec.tokens_per_s:.1f}/s",
            f"{pair.speedup:.2f}x",
            f"{spec.acceptance_rate:.0%}",
            f"{spec.mean_accepted_length:.2f}",
        )
    stdout.print(table)


def _result(pairs: list[Pair]) -> dict[str, object]:
    spec = [pair.speculative.summary for pair in pairs]
    alone_s, spec_s = sum(pair.alone.summary.seconds for pair in pairs), sum(s.seconds for s in spec)
    return {
        "identical": all(pair.identical for pair in pairs),
        "requests": 2 * len(pairs),
        "speedup": round(alone_s / spec_s, 3),
        "acceptance_rate": round(sum(s.accepted for s in spec) / max(1, sum(s.proposed for s in spec)), 3),
        "mean_accepted_length": round(sum(s.tokens for s in spec) / max(1, sum(s.rounds for s in spec)), 3),
    }


async def demo(target: str, draft: str | None, logs: Path) -> bool:
    """Run the demonstration; whether all tokens were identical. Raises StackError and OutriderError."""
    async with running(StackOptions(target, draft, logs, port=0, page_port=0)) as stack:
        await wait_all(stack)
        address = stack[-1].address
        info = await check_pair(address, with_draft=draft is not None)
        stdout.print(f"target {info.target.info.model_id} in {info.target.info.numerics.dtype}, draft {draft}")
        for line in (*whereabouts(stack), f"numbers while it runs: outrider top --address {address}"):
            stdout.print(line, markup=False, soft_wrap=True)
        if stdout.color_system:
            stdout.print(f"each token by its fate: {LEGEND}")
        async with connect(address) as client:
            for tokens in (0, None):
                await answer(client, Ask.user("Hello!", max_new_tokens=8, draft_tokens=tokens))
            vocabulary = Vocabulary.of_model(target)
            pairs = [
                await _ask_both(client, vocabulary, title, text, alone_first=bool(index % 2))
                for index, (title, text) in enumerate(PROMPTS)
            ]
    _print_table(pairs)
    result = _result(pairs)
    print_result(result)
    return bool(result["identical"])
