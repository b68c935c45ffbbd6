"""What an orchestrator says of itself: replicas, numbers, the last requests and their spans. It changes nothing."""

import asyncio
import json
from typing import Any

from orchestrator.config import OrchestratorConfig
from orchestrator.conversations import Conversations
from orchestrator.door import Door
from orchestrator.journal import Journal, JournalState
from orchestrator.meters import Meters
from orchestrator.pools import Pools
from orchestrator.recorder import Recorder, RequestTrace
from orchestrator.replies import JOURNAL_STATES, best, status
from orchestrator.totals import Round
from outrider import otlp_json, semconv, telemetry
from outrider.errors import InvalidArgument, NotFound
from outrider.instruments import Instrument, Labels, Number, Reading
from outrider.spans import LightSpan
from outrider.tokenizer import Tokenizer
from outrider.v1 import orchestrator_pb2 as pb
from outrider.wire import PROTOCOL_VERSION


class Looking:
    """Reads what others own."""

    def __init__(
        self,
        config: OrchestratorConfig,
        pools: Pools,
        tokenizer: Tokenizer,
        journal: Journal,
        door: Door,
        conversations: Conversations,
        recorder: Recorder,
    ) -> None:
        self._config = config
        self._pools = pools
        self._tokenizer = tokenizer
        self._journal = journal
        self._door = door
        self._conversations = conversations
        self._recorder = recorder

    def info(self, incarnation: int) -> pb.GetInfoResponse:
        """The replicas as last seen, and the sums since the process began."""
        return pb.GetInfoResponse(
            protocol_version=PROTOCOL_VERSION,
            incarnation=incarnation,
            target=best(self._pools.targets),
            draft=best(self._pools.drafts),
            targets=[status(member) for member in self._pools.targets.members],
            drafts=[status(member) for member in self._pools.drafts.members],
            sessions=len(self._conversations),
            active_requests=self._door.inside,
            waiting_requests=self._door.waiting,
            max_draft_tokens=self._config.max_draft_tokens,
            journal=JOURNAL_STATES[self._journal.state],
            totals=_totals(self._pools.meters),
        )

    def requests(self, tenant: str) -> pb.ListRequestsResponse:
        """The last requests of a tenant, the last one first."""
        return pb.ListRequestsResponse(requests=[_summary(trace) for trace in self._recorder.recent(tenant)])

    async def trace(self, tenant: str, name: str) -> pb.GetTraceResponse:
        """The spans of one of them. Raises InvalidArgument and NotFound."""
        if not name:
            raise InvalidArgument("id", "must be a session id or a trace id, as ListRequests has them")
        trace = self.find(tenant, name)
        if trace is None:
            raise NotFound("id", "is of none of the requests that are remembered here")
        return pb.GetTraceResponse(otlp_json=await self.otlp(trace.spans))

    def find(self, tenant: str, name: str) -> RequestTrace | None:
        """The last request of a tenant that has this trace id, or is of this session."""
        return self._recorder.find(tenant, name)

    async def otlp(self, spans: list[LightSpan]) -> str:
        """Spans as OTLP JSON, with the text of tokens."""
        readable = [span.readable(telemetry.tracing().resource, self._texts(span)) for span in spans]
        return await asyncio.to_thread(lambda: json.dumps(otlp_json.write(readable)))

    def _texts(self, span: LightSpan) -> dict[str, list[str]]:
        """What the tokens of a round say."""
        if not isinstance(span.about, Round):
            return {}
        texts = {semconv.BLOCK_TEXTS: span.about.block, semconv.EMITTED_TEXTS: span.about.emitted}
        return {name: [self._tokenizer.decode([token]) for token in tokens] for name, tokens in texts.items()}

    def instruments(self) -> list[Instrument]:
        """All that can be exported as metrics."""
        return [
            *self._pools.meters.instruments(),
            Reading(semconv.M_RUNNING, lambda: {(): self._door.inside}),
            Reading(semconv.M_WAITING, lambda: {(): self._door.waiting}),
            Reading(semconv.M_SESSIONS, lambda: {(): len(self._conversations)}),
            Reading(semconv.M_REPLICAS, self._replicas),
            Reading(semconv.M_JOURNAL, self._journal_ready),
        ]

    def _replicas(self) -> dict[Labels, Number]:
        counts: dict[Labels, Number] = {}
        for tier, pool in (("target", self._pools.targets), ("draft", self._pools.drafts)):
            for state in ("ready", "unavailable", "refused"):
                counts[tier, state] = sum(member.state.value == state for member in pool.members)
        return counts

    def _journal_ready(self) -> dict[Labels, Number]:
        state = self._journal.state
        return {} if state is JournalState.ABSENT else {(): int(state is JournalState.READY)}


def _totals(meters: Meters) -> pb.Totals:
    proposed, accepted = meters.proposed_at(), meters.accepted_at()
    return pb.Totals(
        requests=int(meters.requests.total()),
        rounds=int(sum(meters.rounds().values())),
        proposed=int(sum(meters.proposed().values())),
        accepted=int(sum(meters.accepted().values())),
        emitted=int(sum(meters.emitted().values())),
        look_aheads=int(meters.look_aheads.total()),
        look_ahead_hits=int(meters.look_aheads.total("hit")),
        proposed_at=[int(proposed[(place,)]) for place in range(len(proposed))],
        accepted_at=[int(accepted.get((place,), 0)) for place in range(len(proposed))],
        failovers=int(meters.failovers.total()),
        cache_misses=int(meters.misses.total()),
        prompt_tokens=int(meters.prompt.total()),
        rounds_by_mode={mode: int(count) for mode, count in _by_mode(meters).items()},
    )


def _by_mode(meters: Meters) -> dict[str, Number]:
    sums: dict[str, Number] = {}
    for labels, count in meters.rounds().items():
        sums[str(labels[0])] = sums.get(str(labels[0]), 0) + count
    return sums


def _summary(trace: RequestTrace) -> pb.RequestSummary:
    root = trace.root
    assert isinstance(root, LightSpan)
    known: dict[str, Any] = root.attributes
    return pb.RequestSummary(
        session_id=trace.session_id,
        trace_id=f"{trace.trace_id:032x}",
        started_unix_ns=root.start_ns,
        took_us=(root.end_ns - root.start_ns) // 1000 if root.end_ns else 0,
        outcome=str(known.get(semconv.OUTCOME, "")),
        running=not trace.over,
        prompt_tokens=int(known.get(semconv.INPUT_TOKENS, 0)),
        completion_tokens=int(known.get(semconv.OUTPUT_TOKENS, 0)),
        rounds=int(known.get(semconv.REQUEST_ROUNDS, 0)),
        proposed=int(known.get(semconv.REQUEST_PROPOSED, 0)),
        accepted=int(known.get(semconv.REQUEST_ACCEPTED, 0)),
        first_token_us=int(float(known.get(semconv.TTFT_S, 0.0)) * 1e6),
    )
