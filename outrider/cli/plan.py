"""``outrider plan``: what speculation would gain with given or measured numbers, and what it would need.

It knows the formulas' names, not where the numbers come from (``plan_numbers.py``, ``measure.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from outrider.cli.console import print_json, stdout
from outrider.cli.plan_numbers import Given, Numbers
from outrider.outcomes import USUAL_COVERAGE, hit_rate, ranked
from outrider.throughput import (
    Costs,
    draft_replicas,
    expected_tokens,
    look_ahead,
    look_ahead_break_even_s,
    off,
    serial,
    serial_break_even_s,
)

_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
_OUTCOMES = (1, 2, 4, 8, 16, 32, 64)
_LEGEND = (
    "tokens: expected a round; prepared: outcomes that look-ahead prepares, and how often one of them comes\n"
    "break-even: milliseconds of a round trip to either service at which it gains nothing, serial, ahead\n"
    "drafts: draft replicas that keep one target busy, serial, ahead"
)
_COLUMNS = ("k", "tokens", "serial", "ahead", "prepared", "break-even", "drafts")


@dataclass(frozen=True, slots=True)
class Way:
    """A number of draft tokens, one after another or looking ahead (then ``outcomes`` is not 0)."""

    k: int
    tokens: float
    rate: float
    speedup: float
    break_even_s: float
    replicas: int
    outcomes: int = 0
    hit_rate: float = 0.0

    @property
    def name(self) -> str:
        """For people."""
        return f"looking ahead, k = {self.k}, {self.outcomes} outcomes" if self.outcomes else f"serial, k = {self.k}"

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "k": self.k,
            "look_ahead": self.outcomes > 0,
            "outcomes": self.outcomes,
            "hit_rate": round(self.hit_rate, 4),
            "tokens_per_round": round(self.tokens, 4),
            "tokens_per_second": round(self.rate, 3),
            "speedup": round(self.speedup, 4),
            "break_even_rtt_ms": round(self.break_even_s * 1000, 3),
            "draft_replicas_per_target": self.replicas,
        }


def _chances(acceptance: Sequence[float]) -> list[float]:
    """Of each token given that the ones before were right."""
    before = (1.0, *acceptance)
    return [now / earlier if earlier else 0.0 for earlier, now in zip(before, acceptance)]


def _serial(costs: Costs, acceptance: tuple[float, ...], k: int) -> Way:
    rate, even = serial(costs, acceptance, k), serial_break_even_s(costs, acceptance, k)
    return Way(k, expected_tokens(acceptance, k), rate, rate / off(costs), even, draft_replicas(costs, k))


def _ahead(costs: Costs, acceptance: tuple[float, ...], k: int) -> Way:
    """With the number of outcomes that pays best."""
    likeliest = ranked(_chances(acceptance[: k + 1]), USUAL_COVERAGE, max(_OUTCOMES))
    tokens, ways = expected_tokens(acceptance, k), []
    for count in _OUTCOMES:
        hits = hit_rate(likeliest[:count])
        rate = look_ahead(costs, acceptance, k, hits, count)
        even = look_ahead_break_even_s(costs, acceptance, k, hits, count)
        replicas = draft_replicas(costs, k, (hits, count))
        ways.append(Way(k, tokens, rate, rate / off(costs), even, replicas, count, hits))
    return max(ways, key=lambda way: way.rate)


def ways(numbers: Numbers, most: int) -> list[Way]:
    """Every length up to ``most``, serial and then looking ahead."""
    costs = numbers.costs()
    return [make(costs, numbers.acceptance, k) for k in _LENGTHS if k <= most for make in (_serial, _ahead)]


def _table(found: list[Way]) -> Table:
    table = Table(box=SIMPLE)
    for title in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for one, ahead in zip(found[::2], found[1::2]):
        table.add_row(
            str(one.k),
            f"{one.tokens:.2f}",
            f"{one.rate:.1f}/s {one.speedup:.2f}x",
            f"{ahead.rate:.1f}/s {ahead.speedup:.2f}x",
            f"{ahead.outcomes}, {ahead.hit_rate:.0%}",
            f"{one.break_even_s * 1000:.1f}, {ahead.break_even_s * 1000:.1f}",
            f"{one.replicas}, {ahead.replicas}",
        )
    return table


def _verdict(best: Way) -> str:
    if best.speedup <= 1:
        return f"best: the target alone; {best.name} would make {best.speedup:.2f} times as much"
    return (
        f"best: {best.name}: {best.speedup:.2f} times the target alone, {best.tokens:.2f} tokens a round; it gains "
        f"while each round trip stays below {best.break_even_s * 1000:.1f} ms; draft replicas per target: "
        f"{best.replicas}"
    )


def _as_dict(numbers: Numbers, found: list[Way]) -> dict[str, Any]:
    best = max(found, key=lambda way: way.rate)
    return {
        "t_draft_ms": str(numbers.draft),
        "t_verify_ms": str(numbers.target),
        "acceptance": [round(value, 4) for value in numbers.acceptance],
        "rtt_draft_ms": round(numbers.rtt_draft_s * 1000, 3),
        "rtt_target_ms": round(numbers.rtt_target_s * 1000, 3),
        "sessions": numbers.sessions,
        "off_tokens_per_second": round(off(numbers.costs()), 3),
        "best": best.as_dict() if best.speedup > 1 else None,
        "ways": [way.as_dict() for way in found],
    }


def _show(numbers: Numbers, found: list[Way]) -> None:
    trips = f"{numbers.rtt_draft_s * 1000:.2f} ms to the draft, {numbers.rtt_target_s * 1000:.2f} ms to the target"
    stdout.print(
        f"target alone: {off(numbers.costs()):.1f} tokens/s a session; {numbers.sessions} session(s), target pass "
        f"{numbers.target} ms, draft pass {numbers.draft} ms, round trips {trips}"
    )
    stdout.print(_table(found))
    stdout.print(_LEGEND)
    stdout.print(_verdict(max(found, key=lambda way: way.rate)))


def print_plan(given: Given, live: Numbers | None, as_json: bool) -> None:
    """A table and what follows from it, or one line of JSON. Raises InvalidArgument."""
    numbers = given.numbers(live)
    found = ways(numbers, given.max_draft_tokens)
    if as_json:
        print_json(_as_dict(numbers, found))
    else:
        _show(numbers, found)
