"""What was found, for people and for scripts. It decides what counts as a failure."""

from collections import Counter
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from tests.chaos.campaign import Findings, Happened
from tests.chaos.schedule import Kind
from tests.chaos.verdicts import BAD, Fate, Outcome

_MOST_SHOWN = 20


def result(findings: Findings) -> dict[str, Any]:
    """The closing line."""
    fates = Counter(outcome.fate for outcome in findings.outcomes)
    return {
        "requests": len(findings.outcomes),
        "faults": len(findings.faults),
        "wrong": fates[Fate.WRONG],
        "lost": fates[Fate.LOST],
        "doubled": fates[Fate.DOUBLED],
        "hung": fates[Fate.HUNG],
        "leaked": sum(findings.left.values()),
    }


def passed(findings: Findings) -> bool:
    """Whether the five that must be 0 are, and every process that was asked to stop did so well."""
    numbers = result(findings)
    return not any(numbers[name] for name in ("wrong", "lost", "doubled", "hung", "leaked")) and not findings.bad_exits


def tables(findings: Findings) -> RenderableType:
    """Faults by kind, requests by what became of them, and the five."""
    kinds = Counter(happened.planned.kind for happened in findings.faults)
    faults = Table("fault", "times", box=None, pad_edge=False)
    for kind in Kind:
        faults.add_row(kind.value, str(kinds[kind]))
    met = sum(happened.met > 0 for happened in findings.faults)
    faults.add_row("of all, those that met answers in their middle", str(met))
    fates = Counter(outcome.fate for outcome in findings.outcomes)
    resumed = sum(outcome.losses > 0 for outcome in findings.outcomes)
    requests = Table("requests", "", box=None, pad_edge=False)
    requests.add_row("answered", str(fates[Fate.ANSWERED]))
    requests.add_row("of those, lost by their orchestrator and taken up again", str(resumed))
    requests.add_row("refused with a clear status", str(fates[Fate.REFUSED]))
    five = Table("must be 0", "", box=None, pad_edge=False)
    for name in ("wrong", "lost", "doubled", "hung", "leaked"):
        five.add_row(name, str(result(findings)[name]))
    five.add_row("bad exits", str(len(findings.bad_exits)))
    return Group(faults, "", requests, "", five)


def _meanwhile(outcome: Outcome, faults: tuple[Happened, ...]) -> list[str]:
    return [
        f"    {happened.began_s:.1f} to {happened.ended_s:.1f} s: {happened.planned}"
        for happened in faults
        if happened.began_s <= outcome.ended_s and happened.ended_s >= outcome.began_s
    ]


def _lines(outcome: Outcome, faults: tuple[Happened, ...]) -> list[str]:
    speculation = "AUTO" if outcome.draft_tokens is None else f"k {outcome.draft_tokens}"
    what = f"request {outcome.request} (case {outcome.case}, turn {outcome.turn}, {speculation})"
    when = f"{outcome.began_s:.1f} to {outcome.ended_s:.1f} s, {outcome.losses} losses"
    return [f"{outcome.fate.value}: {what}, {when}: {outcome.detail}", *_meanwhile(outcome, faults)]


def details(findings: Findings, seed: int) -> list[str]:
    """What is needed to look into what was not answered; after failures, how to have the same again."""
    shown = [outcome for outcome in findings.outcomes if outcome.fate in BAD]
    lines = [line for outcome in shown[:_MOST_SHOWN] for line in _lines(outcome, findings.faults)]
    lines += [f"leaked: {count} {what}" for what, count in findings.left.items()]
    lines += [f"bad exit: {each}" for each in findings.bad_exits]
    if lines:
        numbers = result(findings)
        again = f"--requests {numbers['requests']} --faults {numbers['faults']} --seed {seed}"
        lines.append(f"again: python -m tests.chaos {again}")
    refused = [outcome for outcome in findings.outcomes if outcome.fate is Fate.REFUSED]
    return [*lines, *(line for outcome in refused[:_MOST_SHOWN] for line in _lines(outcome, findings.faults))]
