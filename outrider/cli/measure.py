"""Measures the numbers of ``outrider plan`` on a live stack: a few answers without speculation and with fixed blocks.

What the orchestrator reports of each round is all it uses. Acceptance is that of its own prompts; passes are those of
one answer alone, so the costs of more rows are known up to the longest block only.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.cli.answering import answer
from outrider.cli.connecting import look
from outrider.cli.demo import PROMPTS
from outrider.cli.plan_numbers import Numbers, extended
from outrider.client import Ask, Client, Delta
from outrider.errors import Unavailable
from outrider.pass_times import PassTimes

_TOKENS = 64
_LENGTHS = (1, 2, 4, 8)
_LEAST_MS = 0.001


@dataclass(frozen=True, slots=True)
class Seen:
    """A round: tokens proposed and accepted, seconds for the proposal and for the verdict."""

    proposed: int
    accepted: int
    propose_s: float
    verify_s: float


async def _rounds(client: Client, prompt: str, k: int) -> list[Seen]:
    """Rounds of one answer without its first two, which read the prompt."""
    seen: list[Seen] = []

    def note(delta: Delta) -> None:
        if (stats := delta.round) is not None:
            times = (stats.propose_us / 1e6, stats.verify_us / 1e6)
            seen.append(Seen(len(stats.draft_tokens), stats.num_accepted, *times))

    await answer(client, Ask.user(prompt, max_new_tokens=_TOKENS, draft_tokens=k, seed=1), note)
    return [one for one in seen[2:] if one.proposed == k]


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Start and slope of the line through points, by least squares; a single one gives a flat line."""
    if len(points) == 1:
        return points[0][1], 0.0
    slope, start = statistics.linear_regression(*zip(*points))
    return start, slope


def acceptance(rounds: Sequence[Seen], most: int) -> tuple[float, ...]:
    """At positions from 1: accepted there over rounds that proposed there, never rising."""
    shares: list[float] = []
    for position in range(1, max(one.proposed for one in rounds) + 1):
        there = [one for one in rounds if one.proposed >= position]
        shares.append(min([*shares[-1:], sum(one.accepted >= position for one in there) / len(there)]))
    return extended(shares, most)


def numbers(plain: Sequence[float], rounds: Sequence[Seen], most: int) -> Numbers:
    """From seconds of plain tokens and from rounds of several lengths. Raises Unavailable."""
    lengths = sorted({one.proposed for one in rounds if one.propose_s > 0})
    if not plain or not lengths:
        raise Unavailable("no rounds with draft tokens came: is a draft connected (outrider doctor)?")
    alone = statistics.median(plain)
    proposals = [(k, statistics.median(one.propose_s for one in rounds if one.proposed == k)) for k in lengths]
    verdicts = [(1 + k, statistics.median(one.verify_s for one in rounds if one.proposed == k)) for k in lengths]
    rtt_draft, draft = line(proposals)
    start, slope = line(verdicts)
    rtt_target = max(0.0, start + slope - alone)  # what one row would take as a round of its own, less its pass
    points, least = [(1, round(alone * 1000, 3))], alone
    for rows, seconds in verdicts:
        least = max(least, seconds - rtt_target)
        points.append((rows, round(least * 1000, 3)))
    return Numbers(
        draft=PassTimes(((1, max(_LEAST_MS, round(draft * 1000, 3))),)),
        target=PassTimes(tuple(points)),
        acceptance=acceptance(rounds, most),
        rtt_draft_s=max(0.0, rtt_draft),
        rtt_target_s=rtt_target,
    )


async def measure(client: Client, most: int) -> Numbers:
    """Ask four prompts without speculation and with blocks of several lengths, one after another."""
    largest = (await look(client)).max_draft_tokens
    plain: list[float] = []
    rounds: list[Seen] = []
    for _, prompt in PROMPTS:
        plain += [one.verify_s for one in await _rounds(client, prompt, 0)]
        for k in _LENGTHS:
            if k <= largest:
                rounds += await _rounds(client, prompt, k)
    return numbers(plain, rounds, most)
