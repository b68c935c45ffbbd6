"""What it costs to see a round: microseconds of the event loop, traced and untraced, beside not looking at all.

The acceptance loop runs over replicas in memory that answer at once; their exchanges are observed as real ones are.
Three ways take turns: nobody looks; spans are recorded in the ring and metrics counted, as for a request that is not
sampled; and spans are exported as well, to an exporter that throws them away. It knows no network and no model.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import INVALID_SPAN, Span

from bench.command import run_command
from bench.report import publish, table
from orchestrator.answer import Answer, Ending
from orchestrator.caches import CacheView
from orchestrator.drafting import Drafting
from orchestrator.estimates import PoolEstimates
from orchestrator.exchange import Exchange, Way
from orchestrator.meters import Meters
from orchestrator.peers import Outcome, Prepared, Proposal, Verdict
from orchestrator.recorder import Keeping, Recorder
from orchestrator.session import Generation, Limits
from orchestrator.speculation import Controller, Mode, Speculation
from outrider import semconv, telemetry
from outrider.tokens import CacheMiss, Claim, TokenLog
from outrider.v1 import common_pb2, draft_pb2, target_pb2
from outrider.wire import timings_from_pb

_ROUNDS = 400
_REPEATS = 60
_K = 4
_TIMINGS = common_pb2.Timings(queue_us=100, forward_us=5000, passes=1, batch_rows=8)
_KNOWN = timings_from_pb(_TIMINGS)
_ASKED = draft_pb2.ProposeRequest(round=3, prefix_len=200, prefix_digest=2**60, tokens=[7, 8], max_draft_tokens=_K)
_BLOCK = draft_pb2.ProposeResponse(round=3, block=draft_pb2.Block(tokens=[1] * _K, cached_len=200), timings=_TIMINGS)
_JUDGE = target_pb2.VerifyRequest(round=3, prefix_len=200, prefix_digest=2**60, tokens=[7], draft_tokens=[1] * _K)
_JUDGED = target_pb2.VerifyResponse(round=3, verdict=target_pb2.Verdict(num_accepted=2, next_token=9), timings=_TIMINGS)


class _Nowhere(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


@dataclass(slots=True)
class _Peer:
    """Draft and target in memory. ``ways`` is None when nobody looks."""

    ways: tuple[Way, Way] | None
    available: bool = True
    coming: int = 0

    async def propose(
        self, number: int, claim: Claim, count: int, span: Span, late: Outcome | None = None
    ) -> Proposal | CacheMiss:
        self._observe(0, semconv.SPAN_PROPOSE_CLIENT, number, claim, span, _ASKED, _BLOCK)
        return Proposal((1,) * count, claim.end + count, timings_from_pb(_TIMINGS) if self.ways is None else _KNOWN)

    async def look_ahead(self, *_: Any) -> None:
        raise NotImplementedError

    def prepared(self) -> Prepared | CacheMiss | None:
        return None

    def preparation_s(self) -> float | None:
        return None

    async def verify(
        self, number: int, claim: Claim, block: tuple[int, ...], run: int, span: Span
    ) -> Verdict | CacheMiss:
        self._observe(1, semconv.SPAN_VERIFY_CLIENT, number, claim, span, _JUDGE, _JUDGED)
        return Verdict(2, 9, (), claim.end + 2, 0, timings_from_pb(_TIMINGS) if self.ways is None else _KNOWN)

    def _observe(
        self, tier: int, name: str, number: int, claim: Claim, span: Span, request: Any, response: Any
    ) -> None:
        if self.ways is not None:
            with Exchange(self.ways[tier], name, number, claim, span) as exchange:
                request.traceparent = exchange.traceparent
                exchange.sent(request)
                exchange.answered(response)


def _generation(peer: _Peer, span: Span) -> Generation:
    log = TokenLog()
    log.extend([5] * 50)
    return Generation(
        log=log,
        answer=Answer(Ending(3 * _ROUNDS, frozenset(), ()), lambda tokens: ""),
        policy=Controller(Speculation(Mode.FIXED, _K), PoolEstimates(), 0),
        limits=Limits(_K),
        drafting=Drafting(log, peer, CacheView()),
        target=peer,
        target_view=CacheView(),
        span=span,
    )


async def _answer(looking: bool) -> float:
    """Seconds of the loop's thread per round."""
    meters = Meters()
    recorder = Recorder(Keeping())
    trace = recorder.begin(None)
    ways = (Way("host:1", "Propose", meters.tiers["draft"]), Way("host:2", "Verify", meters.tiers["target"]))
    generation = _generation(_Peer(ways if looking else None), trace.root if looking else INVALID_SPAN)
    count, began = 0, time.thread_time()
    async for done in generation.rounds():
        if looking:
            meters.round(done)
        count += 1
    trace.root.end()
    recorder.end(trace, keep=False)
    return (time.thread_time() - began) / count


def _untraced() -> None:
    telemetry.install(BatchSpanProcessor(_Nowhere()), ALWAYS_OFF)


def _traced() -> None:
    telemetry.install(BatchSpanProcessor(_Nowhere(), max_queue_size=2**16), ALWAYS_ON)


_WAYS: dict[str, tuple[bool, Callable[[], None]]] = {
    "nobody looks": (False, lambda: telemetry.install(None)),
    "untraced": (True, _untraced),
    "traced": (True, _traced),
}


async def costs() -> dict[str, float]:
    """Microseconds per round of each way: minima of repeats that take turns: whatever else goes on only adds."""
    taken: dict[str, list[float]] = {name: [] for name in _WAYS}
    for _ in range(_REPEATS):
        for name, (looking, install) in _WAYS.items():
            install()
            taken[name].append(await _answer(looking) * 1e6)
            telemetry.tracing().close()
    telemetry.install(None)
    return {name: min(values) for name, values in taken.items()}


async def _run() -> None:
    found = await costs()
    alone = found["nobody looks"]
    rows = [[name, f"{value:.1f}", f"{value - alone:.1f}"] for name, value in found.items()]
    result = {f"round_cost_us_{name}": round(found[name] - alone, 1) for name in ("traced", "untraced")}
    publish("observing", table(["", "us per round", "cost of looking"], rows), result)


if __name__ == "__main__":
    sys.exit(run_command(_run))
