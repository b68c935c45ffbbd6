"""Runs one request to its end: what is new to a sink as it comes, a result with its times at the end."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider.cli.render import Summary
from outrider.client import Ask, Client, Delta, Finished


@dataclass(frozen=True, slots=True)
class Answered:
    """A finished answer."""

    session_id: str
    seed: int
    text: str
    token_ids: tuple[int, ...]
    summary: Summary

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"text": self.text, "token_ids": self.token_ids, "seed": self.seed, **self.summary.as_dict()}


def _nothing(delta: Delta) -> None:
    """Default sink."""


def _summary(finished: Finished, seconds: float, first_s: float) -> Summary:
    usage, totals = finished.usage, finished.speculation
    return Summary(
        tokens=usage.completion_tokens,
        prompt_tokens=usage.prompt_tokens,
        cached_prompt_tokens=usage.cached_prompt_tokens,
        seconds=seconds,
        first_s=first_s,
        rounds=totals.rounds,
        proposed=totals.proposed,
        accepted=totals.accepted,
        draft_faults=totals.draft_faults,
        reason=finished.reason.value,
    )


async def answer(client: Client, ask: Ask, on_delta: Callable[[Delta], None] = _nothing) -> Answered:
    """Send a request and collect its answer. Raises OutriderError."""
    began = time.perf_counter()
    first_s = 0.0

    def note(delta: Delta) -> None:
        nonlocal first_s
        first_s = first_s or time.perf_counter() - began
        on_delta(delta)

    whole = await client.answer(ask, note)
    summary = _summary(whole.finished, time.perf_counter() - began, first_s)
    return Answered(whole.session_id, whole.seed, whole.text, whole.token_ids, summary)
