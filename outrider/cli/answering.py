"""Runs one request to its end: events to a sink as they come, a result at the end."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider.cli.client import Ask, Client
from outrider.cli.render import Summary
from outrider.v1 import orchestrator_pb2 as pb

_REASONS = {pb.FINISH_REASON_STOP: "stop", pb.FINISH_REASON_LENGTH: "length"}


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


def _nothing(delta: pb.Delta) -> None:
    """Default sink."""


async def answer(client: Client, ask: Ask, on_delta: Callable[[pb.Delta], None] = _nothing) -> Answered:
    """Send a request and collect its answer. Raises OutriderError."""
    began = time.perf_counter()
    first_s, started, finished = 0.0, pb.Started(), pb.Finished()
    texts: list[str] = []
    tokens: list[int] = []
    async for event in client.generate(ask):
        if event.HasField("started"):
            started = event.started
        elif event.HasField("delta"):
            first_s = first_s or time.perf_counter() - began
            texts.append(event.delta.text)
            tokens.extend(event.delta.token_ids)
            on_delta(event.delta)
        else:
            finished = event.finished
    totals = finished.speculation
    summary = Summary(
        tokens=finished.usage.completion_tokens,
        prompt_tokens=finished.usage.prompt_tokens,
        cached_prompt_tokens=finished.usage.cached_prompt_tokens,
        seconds=time.perf_counter() - began,
        first_s=first_s,
        rounds=totals.rounds,
        proposed=totals.proposed,
        accepted=totals.accepted,
        draft_faults=totals.draft_faults,
        reason=_REASONS.get(finished.reason, "unknown"),
    )
    return Answered(started.session_id, started.seed, "".join(texts), tuple(tokens), summary)
