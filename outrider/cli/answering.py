"""Runs one request to its end: what is new to a sink as it comes, a result with its times at the end."""

import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from outrider.cli.render import Summary
from outrider.client import Ask, Client, Delta, Finished, Started


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
    first_s, seed, session_id = 0.0, 0, ""
    deltas: list[Delta] = []
    summary: Summary | None = None
    async with aclosing(client.stream(ask)) as events:
        async for event in events:
            if isinstance(event, Started):
                seed = event.seed
            elif isinstance(event, Delta):
                first_s = first_s or time.perf_counter() - began
                deltas.append(event)
                on_delta(event)
            else:
                session_id = event.session_id
                summary = _summary(event, time.perf_counter() - began, first_s)
    assert summary is not None, "a stream ends with Finished or an error"
    text = "".join(delta.text for delta in deltas)
    return Answered(session_id, seed, text, tuple(id for delta in deltas for id in delta.token_ids), summary)
