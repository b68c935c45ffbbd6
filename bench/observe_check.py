"""Do the numbers agree? Real requests through the real system, their traces through a real OTLP receiver, metrics read
from the Prometheus port: rounds against spans, tokens counted against tokens billed, spans without a parent, and what
looking costs a round.
"""

import asyncio
import os
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench.collector import collecting
from bench.command import run_command
from bench.observing import costs
from bench.processes import BenchError
from bench.report import publish, table
from outrider import otlp_json, semconv
from outrider.cli.models import chosen_pair
from outrider.cli.ports import free_port
from outrider.cli.stack import StackOptions, running
from outrider.client import Answer, Ask, Client, Delta, Started
from outrider.otlp_json import SpanRecord
from outrider.sampling import SamplingParams

_PROMPTS = ("What is a fox?", "Write a haiku about rain.", "Count to ten.", "Why is the sky blue?")
_CHOICES = (None, 0, 4)
_NEW_TOKENS = 48
_GIVEN_UP_AFTER = 5
_ARRIVES_S = 20.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What clients, metrics and traces say of the same requests."""

    rounds: int
    round_spans: int
    orphan_spans: int
    emitted_metric: int
    emitted_usage: int
    requests: int
    given_up: int


async def _ask_all(client: Client) -> list[Answer]:
    """Greedy and sampled, with the server's choice, without and with a fixed block, some at once."""
    asks = [
        Ask.user(prompt, max_new_tokens=_NEW_TOKENS, draft_tokens=k, sampling=SamplingParams(temperature=temperature))
        for prompt in _PROMPTS
        for k in _CHOICES
        for temperature in (0.0, 0.8)
    ]
    half = len(asks) // 2
    return [*[await client.answer(ask) for ask in asks[:half]], *await asyncio.gather(*map(client.answer, asks[half:]))]


async def _give_up(client: Client, prompt: str) -> str:
    """The session of a request whose client goes in mid-answer."""
    session = ""
    async with aclosing(client.stream(Ask.user(prompt, max_new_tokens=_NEW_TOKENS))) as events:
        tokens = 0
        async for event in events:
            if isinstance(event, Started):
                session = event.session_id
            if isinstance(event, Delta):
                tokens += len(event.token_ids)
            if tokens >= _GIVEN_UP_AFTER:
                break
    return session


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        page: bytes = answer.read()
    return page.decode()


def _metric(page: str, metric: semconv.Metric) -> int:
    """The sum over its series."""
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return int(sum(sample.value for sample in samples if sample.name == metric.prometheus))


def _rounds_of(spans: Sequence[SpanRecord], sessions: set[str]) -> int:
    roots = {
        span.trace_id for span in spans if span.attributes.get(semconv.SESSION_ID) in sessions and not span.parent_id
    }
    return sum(span.name == semconv.SPAN_ROUND and span.trace_id in roots for span in spans)


def _orphans(spans: Sequence[SpanRecord]) -> int:
    known = {(span.trace_id, span.span_id) for span in spans}
    return sum(bool(span.parent_id) and (span.trace_id, span.parent_id) not in known for span in spans)


def _read(file: Path) -> list[SpanRecord]:
    return otlp_json.read(file.read_text()) if file.exists() else []


async def _all_spans(file: Path, requests: int) -> list[SpanRecord]:
    """When every request's own span is there: it ends last, and the replicas' stay behind for a moment."""
    async with asyncio.timeout(_ARRIVES_S):
        while True:
            spans = await asyncio.to_thread(_read, file)
            if sum(span.name == semconv.SPAN_GENERATE for span in spans) >= requests and not _orphans(spans):
                return spans
            await asyncio.sleep(0.5)


async def _look(logs: Path) -> Seen:
    target, draft = chosen_pair(None, None, os.environ)
    port = free_port("127.0.0.1")
    metrics = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": str(port)}
    async with collecting(logs) as collector:
        options = StackOptions(
            target, draft, logs, port=0, environment=collector.variables, variables={"orchestrator": metrics}
        )
        async with running(options) as stack:
            for service in stack:
                await service.wait_ready()
            async with Client(stack[-1].address, timeout_s=300) as client:
                answers = await _ask_all(client)
                page = await asyncio.to_thread(_get, f"http://127.0.0.1:{port}/metrics")
                given_up = [await _give_up(client, prompt) for prompt in _PROMPTS]
        try:
            spans = await _all_spans(collector.file, len(answers) + len(given_up))
        except TimeoutError:
            spans = await asyncio.to_thread(_read, collector.file)
    sessions = {answer.started.session_id for answer in answers}
    return Seen(
        rounds=sum(answer.finished.speculation.rounds for answer in answers),
        round_spans=_rounds_of(spans, sessions),
        orphan_spans=_orphans(spans),
        emitted_metric=_metric(page, semconv.M_EMITTED),
        emitted_usage=sum(answer.finished.usage.completion_tokens for answer in answers),
        requests=len(answers),
        given_up=len(given_up),
    )


async def _run() -> None:
    with tempfile.TemporaryDirectory() as logs:
        seen = await _look(Path(logs))
    cost = await costs()
    alone = cost["nobody looks"]
    result = {
        "rounds": seen.rounds,
        "round_spans": seen.round_spans,
        "orphan_spans": seen.orphan_spans,
        "emitted_metric": seen.emitted_metric,
        "emitted_usage": seen.emitted_usage,
        **{f"round_cost_us_{name}": round(cost[name] - alone, 1) for name in ("traced", "untraced")},
    }
    rows = [
        ["verify rounds", f"{seen.rounds} in answers", f"{seen.round_spans} spans"],
        ["tokens", f"{seen.emitted_usage} billed", f"{seen.emitted_metric} counted"],
        ["requests", f"{seen.requests} answered", f"{seen.given_up} given up by their clients"],
        ["spans whose parent is missing", str(seen.orphan_spans), ""],
    ]
    publish("observe_check", table(["", "", ""], rows), result)
    if (seen.rounds, seen.emitted_metric, seen.orphan_spans) != (seen.round_spans, seen.emitted_usage, 0):
        raise BenchError("the numbers do not agree")


if __name__ == "__main__":
    sys.exit(run_command(_run))
