"""Promise 4: one trace per request, one span per round, across all three services."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bench.speculating.payload import relay
from orchestrator.plans import Drafter, Plan, Situation
from orchestrator.speculation import Controller
from outrider import semconv, telemetry
from outrider.spans import LightSpan
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from tests.integration.prompts import prompt_of
from tests.integration.test_synthetic import system
from tests.stack import Answer, Farm, Stack, make_request, own_stack
from tests.tiny import save_tokenizer
from tests.waiting import eventually

CLIENT_TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENT_SPAN = "b7ad6b7169203331"
REPLICA_SPANS = {
    semconv.SPAN_PROPOSE_CLIENT: semconv.SPAN_PROPOSE_SERVER,
    semconv.SPAN_VERIFY_CLIENT: semconv.SPAN_VERIFY_SERVER,
}
FORWARDS = {
    semconv.SPAN_DRAFT_FORWARD: semconv.SPAN_PROPOSE_SERVER,
    semconv.SPAN_TARGET_FORWARD: semconv.SPAN_VERIFY_SERVER,
}


class OpenSpans:
    """Names of spans that have begun and not ended; the engines' threads make spans too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.names: list[str] = []

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        begin, end = LightSpan.__init__, LightSpan.end

        def begins(span: LightSpan, *args: Any, **kwargs: Any) -> None:
            begin(span, *args, **kwargs)
            with self._lock:
                self.names.append(span.name)

        def ends(span: LightSpan, end_time: int | None = None) -> None:
            open_ = not span.end_ns
            end(span, end_time)
            with self._lock:
                self.names[:] = self.names if not open_ else _without(self.names, span.name)

        patch.setattr(LightSpan, "__init__", begins)
        patch.setattr(LightSpan, "end", ends)


def _without(names: list[str], name: str) -> list[str]:
    place = names.index(name)
    return [*names[:place], *names[place + 1 :]]


class Recording:
    """What was traced since the test began."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.open = OpenSpans()

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def children(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """Spans under a span, in order of their start."""
        below = [span for span in self.spans if span.parent and span.parent.span_id == id_of(parent)]
        return sorted(below, key=lambda span: span.start_time or 0)


def number(span: ReadableSpan, name: str) -> int:
    """A numeric attribute."""
    value = (span.attributes or {})[name]
    assert isinstance(value, int)
    return value


def trace_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


@pytest.fixture
def recording() -> Iterator[Recording]:
    """Everything is traced into memory while a test runs."""
    made = Recording()
    with pytest.MonkeyPatch.context() as patch:
        made.open.watch(patch)
        telemetry.install(SimpleSpanProcessor(made.exporter))
        yield made
        telemetry.install(None)


@pytest.fixture
async def stack(farm: Farm, llama: Path, good_draft: Path) -> Stack:
    return await farm.stack(llama, good_draft)


async def complete(recording: Recording) -> None:
    """Every span that has begun has ended; forward spans end on the engines' threads."""
    await eventually(lambda: not recording.open.names, f"spans end: {recording.open.names}")


async def test_the_tree_of_one_request(recording: Recording, stack: Stack) -> None:
    """generate > queue, prompt, prefill and rounds; round > draft.propose, target.verify > draft.serve, target.serve:
    exactly that."""
    answer = await stack.generate(prompt_of(9), 4, max_new_tokens=20)
    await complete(recording)
    (root,) = recording.named(semconv.SPAN_GENERATE)
    assert root.parent is None
    below = recording.children(root)
    rounds = [span for span in below if span.name == semconv.SPAN_ROUND]
    others = [span.name for span in below if span.name != semconv.SPAN_ROUND]
    assert others == [semconv.SPAN_QUEUE, semconv.SPAN_PROMPT, semconv.SPAN_PREFILL]
    assert len(rounds) == len(answer.rounds)
    for span, stats in zip(rounds, answer.rounds, strict=True):
        assert number(span, semconv.ROUND) == stats.round
        assert number(span, semconv.PROPOSED) == len(stats.draft_tokens)
        assert number(span, semconv.ACCEPTED) == stats.num_accepted
        asked = [child.name for child in recording.children(span)]
        wanted = [semconv.SPAN_PROPOSE_CLIENT] if stats.draft_tokens else []
        assert asked == [*wanted, semconv.SPAN_VERIFY_CLIENT]
        for client in recording.children(span):
            assert [server.name for server in recording.children(client)] == [REPLICA_SPANS[client.name]]
    known = {semconv.SPAN_GENERATE, semconv.SPAN_ROUND, *others, *REPLICA_SPANS, *REPLICA_SPANS.values(), *FORWARDS}
    assert {span.name for span in recording.spans} == known
    assert sum(number(span, semconv.EMITTED) for span in rounds) == len(answer.ids)


async def test_forward_passes_are_linked_not_nested(recording: Recording, stack: Stack) -> None:
    """A pass serves many requests, so it is a root that links to the rounds it served."""
    await asyncio.gather(*(stack.generate(prompt_of(9, i), 2, max_new_tokens=12) for i in range(4)))
    await complete(recording)
    for name, served in FORWARDS.items():
        passes = recording.named(name)
        rounds = {id_of(span) for span in recording.named(served)}
        linked = [link.context.span_id for span in passes for link in span.links]
        assert all(span.parent is None for span in passes)
        assert set(linked) == rounds
        for span in passes:
            assert number(span, semconv.BATCH_ROUNDS) == len(span.links)
            assert number(span, semconv.BATCH_ROWS) >= len(span.links)
    assert max(len(span.links) for span in recording.named(semconv.SPAN_TARGET_FORWARD)) > 1


def by_round(recording: Recording, name: str) -> dict[int, ReadableSpan]:
    """Spans of one answer by their round, of which each has just one."""
    spans = recording.named(name)
    found = {number(span, semconv.ROUND): span for span in spans}
    assert len(found) == len(spans)
    return found


SEEN_BY_BOTH = (
    semconv.RUN_FIRST,
    semconv.PREFIX_LEN,
    semconv.QUEUE_US,
    semconv.FORWARD_US,
    semconv.PASSES,
    semconv.BATCH_ROWS,
    semconv.CACHE_MISS,
)


async def test_each_round_of_a_run_has_its_own_spans(recording: Recording, stack: Stack) -> None:
    """One span at the target per round, which says what the caller's says, beside the first of its run; passes link to
    the round that they served. What no message asked for sent no bytes, and links to the round whose message did."""
    answer = await stack.generate(prompt_of(9), 0, max_new_tokens=40)
    await complete(recording)
    (root,) = recording.named(semconv.SPAN_GENERATE)
    clients, servers = (
        by_round(recording, semconv.SPAN_VERIFY_CLIENT),
        by_round(recording, semconv.SPAN_VERIFY_SERVER),
    )
    assert sorted(clients) == sorted(servers) == list(range(len(answer.rounds)))
    for round_, client in clients.items():
        server = servers[round_]
        first = clients[number(client, semconv.RUN_FIRST)]
        assert {name: number(server, name) for name in SEEN_BY_BOTH} == {
            name: number(client, name) for name in SEEN_BY_BOTH
        }
        assert server.parent is not None
        assert (server.parent.span_id, trace_of(server)) == (id_of(first), trace_of(root))
        follows = first is not client
        assert [link.context.span_id for link in client.links] == ([id_of(first)] if follows else [])
        assert (number(client, semconv.BYTES_SENT) == 0) == follows
        assert (semconv.NETWORK_US in (client.attributes or {})) != follows
        passes = [span for span in recording.named(semconv.SPAN_TARGET_FORWARD) if linked(span, server)]
        assert len(passes) == number(server, semconv.PASSES)
    firsts = {number(client, semconv.RUN_FIRST) for client in clients.values()}
    assert 1 < len(firsts) <= 5


def total(spans: list[ReadableSpan], name: str) -> int:
    return sum(number(span, name) for span in spans)


async def test_bytes_are_those_on_the_wire(recording: Recording, stack: Stack) -> None:
    """As relays between the services count them, over blocks, runs and cache misses."""
    assert stack.draft is not None
    async with (
        relay(stack.target.address) as to_target,
        relay(stack.draft.address) as to_draft,
        own_stack(
            stack.target, stack.draft, target_address=to_target.address, draft_address=to_draft.address
        ) as counted,
    ):
        for k in (4, 0):
            await counted.generate(prompt_of(9), k, max_new_tokens=30)
    await complete(recording)
    for name, counting in ((semconv.SPAN_VERIFY_CLIENT, to_target), (semconv.SPAN_PROPOSE_CLIENT, to_draft)):
        rounds = [stream for stream in counting.streams if stream.method.endswith(("/Propose", "/Verify"))]
        spans = recording.named(name)
        assert total(spans, semconv.BYTES_SENT) == sum(size for stream in rounds for size in stream.requests) > 0
        assert total(spans, semconv.BYTES_RECEIVED) == sum(size for stream in rounds for size in stream.responses) > 0


def always_ahead(controller: Controller, situation: Situation) -> Plan:
    """Blocks of the draft, and the next ones prepared meanwhile."""
    k = min(4, situation.remaining - 1)
    return Plan(Drafter.MODEL, k, look_ahead=True, fanout=(3,) * (k + 1)) if k > 0 else Plan()


async def test_looking_ahead_is_seen_beside_the_verdict(
    recording: Recording, farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to look ahead is a child of its round that lasts beside the verify and until its answer is taken up or
    given up; the draft's span is below it, and it says when and with how many bytes the answer came. Some answers are
    in time: a pass of the target lasts as long as 60 of the draft, which needs 5."""
    monkeypatch.setattr(Controller, "decide", always_ahead)
    save_tokenizer(tmp_path)
    async with system(tmp_path, target_ms="60") as stack:
        answer = await stack.generate(prompt_of(50), None, max_new_tokens=60)
    await complete(recording)
    rounds, verifies = by_round(recording, semconv.SPAN_ROUND), by_round(recording, semconv.SPAN_VERIFY_CLIENT)
    ahead = by_round(recording, semconv.SPAN_LOOK_AHEAD_CLIENT)
    assert len(ahead) == answer.finished.speculation.look_aheads > 5
    taken = [round_ for round_, span in ahead.items() if number(span, semconv.TAKEN_UP)]
    assert len(taken) >= answer.finished.speculation.look_ahead_hits > 0
    for round_, span in ahead.items():
        assert span.parent is not None
        assert span.parent.span_id == id_of(rounds[round_])
        assert overlap(span, verifies[round_])
    for span in (ahead[round_] for round_ in taken):
        (server,) = recording.children(span)
        assert server.name == semconv.SPAN_LOOK_AHEAD_SERVER
        assert number(server, semconv.ROUND) == number(span, semconv.ROUND)
        assert number(span, semconv.BYTES_SENT) > 0
        assert number(span, semconv.BYTES_RECEIVED) > 0
        (arrival,) = span.events
        assert arrival.name == semconv.EVENT_ARRIVED
        assert (span.start_time or 0) <= arrival.timestamp <= (span.end_time or 0)


def overlap(one: ReadableSpan, other: ReadableSpan) -> bool:
    """Whether each had begun before the other ended."""
    assert one.start_time and one.end_time and other.start_time and other.end_time
    return one.start_time < other.end_time and other.start_time < one.end_time


async def test_a_clients_trace_goes_on(recording: Recording, stack: Stack) -> None:
    """A traceparent in the call's metadata is the parent, and its trace id is everywhere but in the passes."""
    call = stack.stub.Generate(
        make_request(prompt_of(9), 2), metadata=(("traceparent", f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-01"),), timeout=30
    )
    async for _ in call:
        pass
    await complete(recording)
    (root,) = recording.named(semconv.SPAN_GENERATE)
    assert root.parent is not None
    assert root.parent.span_id == int(CLIENT_SPAN, 16)
    traces = {trace_of(span) for span in recording.spans if span.name not in FORWARDS}
    assert traces == {int(CLIENT_TRACE, 16)}


@pytest.mark.parametrize("traceparent", ["", "junk", "00-0-0-01"])
async def test_a_malformed_parent_is_no_parent(recording: Recording, stack: Stack, traceparent: str) -> None:
    """The request is served and traced by itself."""
    call = stack.stub.Generate(make_request(prompt_of(9), 2), metadata=(("traceparent", traceparent),), timeout=30)
    async for _ in call:
        pass
    await complete(recording)
    (root,) = recording.named(semconv.SPAN_GENERATE)
    assert root.parent is None


@pytest.mark.parametrize("k", [2, 0], ids=["blocks", "runs"])
async def test_fifty_streams_half_of_them_cancelled(
    recording: Recording, stack: Stack, caplog: pytest.LogCaptureFixture, k: int
) -> None:
    """No span stays open, nobody fails to detach a context, and every round has the right parent."""
    caplog.set_level(logging.WARNING)

    async def one(number: int) -> None:
        answer = Answer()
        stream = stack.stream(make_request(prompt_of(9, number), k, max_new_tokens=24))
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                answer.read(event)
                if number % 2 and len(answer.ids) > number // 5:
                    break

    await asyncio.gather(*(one(i) for i in range(50)))
    await stack.settled()
    await complete(recording)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    roots = {id_of(span): span for span in recording.named(semconv.SPAN_GENERATE)}
    assert len(roots) == 50
    for span in recording.named(semconv.SPAN_ROUND):
        assert span.parent is not None
        parent = roots[span.parent.span_id]
        assert span.parent.trace_id == trace_of(parent)


async def test_a_look_ahead_is_a_span_with_its_outcomes_ended_or_not(recording: Recording, stack: Stack) -> None:
    """Its parent is the caller's round; passes of all its branches link to it once. The next message ends it."""
    assert stack.draft is not None
    request = draft_pb2.ProposeRequest(
        session_id="traced",
        tokens=prompt_of(9),
        max_draft_tokens=3,
        sampling=common_pb2.SamplingParams(seed=1),
        traceparent=f"00-{CLIENT_TRACE}-{CLIENT_SPAN}-01",
        look_ahead=draft_pb2.LookAhead(draft_tokens=[5, 6], fanout=[2, 3, 4]),
    )
    async with grpc.aio.insecure_channel(stack.draft.address) as channel:
        stub = draft_pb2_grpc.DraftServiceStub(channel)
        call: Any = stub.Propose(timeout=30)
        await call.write(request)
        assert len((await call.read()).continuations.continuations) == 9
        request.look_ahead.fanout[:] = [16, 16, 16]
        request.max_draft_tokens = 16
        await call.write(request)
        request.ClearField("look_ahead")
        await call.write(request)
        await call.done_writing()
        outcomes = []
        while (response := await call.read()) is not grpc.aio.EOF:
            outcomes.append(response.WhichOneof("outcome"))
        assert outcomes[-1] == "block"
        wish = common_pb2.ReleaseRequest(session_id="traced")
        await stub.Release(draft_pb2.DraftServiceReleaseRequest(release=wish), timeout=5)
    await complete(recording)
    done, ended = recording.named(semconv.SPAN_LOOK_AHEAD_SERVER)
    for span in (done, ended):
        assert span.parent is not None
        assert span.parent.span_id == int(CLIENT_SPAN, 16)
        assert span.status.status_code is trace.StatusCode.UNSET
    assert (number(done, semconv.OUTCOMES), number(done, semconv.CONTINUATIONS)) == (9, 9)
    assert number(ended, semconv.OUTCOMES) == 48
    passes = [span for span in recording.named(semconv.SPAN_DRAFT_FORWARD) if linked(span, done)]
    assert [(number(span, semconv.BATCH_ROWS), len(span.links)) for span in passes] == [(11, 1), *[(9, 1)] * 3]


def linked(span: ReadableSpan, to: ReadableSpan) -> bool:
    return any(link.context.span_id == id_of(to) for link in span.links)


async def test_an_error_is_on_its_span(recording: Recording, stack: Stack) -> None:
    """A refused session ends the request's span with the error's type."""
    await stack.fails(make_request([5], session_id="nobody"))
    await complete(recording)
    (root,) = recording.named(semconv.SPAN_GENERATE)
    assert root.attributes is not None
    assert root.attributes[semconv.ERROR_TYPE] == "NotFound"
    assert root.status.status_code is trace.StatusCode.ERROR


async def test_every_attribute_has_a_constant(recording: Recording, stack: Stack) -> None:
    """One definition per name: nothing is written that outrider/semconv.py does not name."""
    await stack.generate(prompt_of(9), 2, temperature=0.8)
    await complete(recording)
    used = {name for span in recording.spans for name in span.attributes or {}}
    assert used
    assert used <= {each.name for each in semconv.ATTRIBUTES}
    assert {span.name for span in recording.spans} <= {each.name for each in semconv.SPANS}


@pytest.mark.parametrize(("slow_s", "kept"), [(0.0, True), (600.0, False)])
async def test_a_slow_request_that_nobody_samples_is_exported_with_all_its_rounds(
    recording: Recording, farm: Farm, llama: Path, good_draft: Path, slow_s: float, kept: bool
) -> None:
    """By the orchestrator; the replicas were not asked, and have nothing to say of it."""
    telemetry.install(SimpleSpanProcessor(recording.exporter), sampling.DEFAULT_OFF)
    target, draft = await farm.replica("target", llama), await farm.replica("draft", good_draft)
    async with own_stack(target, draft, trace_slow_first_s=slow_s) as stack:
        answer = await stack.generate(prompt_of(9), 4, max_new_tokens=20)
        stack.service.close()
    assert len(recording.named(semconv.SPAN_ROUND)) == (len(answer.rounds) if kept else 0)
    verifies = recording.named(semconv.SPAN_VERIFY_CLIENT)
    assert len(verifies) == (len(answer.rounds) if kept else 0)
    assert all(number(span, semconv.FORWARD_US) > 0 for span in verifies)
    assert not {semconv.SPAN_VERIFY_SERVER, *FORWARDS} & {span.name for span in recording.spans}
    for root in recording.named(semconv.SPAN_GENERATE):
        assert root.attributes is not None
        assert root.attributes[semconv.KEPT_BECAUSE] == "slow"


async def test_a_lost_cache_is_an_event_with_its_reason(recording: Recording, farm: Farm, llama: Path) -> None:
    """On the message that found nothing there."""
    first = await farm.replica("target", llama)
    async with own_stack(first) as stack:
        kept = await stack.generate(prompt_of(9), 0, max_new_tokens=8, keep_session=True)
        assert await first.evict() > 0
        await stack.generate(prompt_of(5), 0, max_new_tokens=8, session_id=kept.session_id)
    await complete(recording)
    missed = [span for span in recording.named(semconv.SPAN_VERIFY_CLIENT) if number(span, semconv.CACHE_MISS)]
    (span,) = missed
    (event,) = span.events
    assert (event.name, dict(event.attributes or {})) == (semconv.EVENT_CACHE_MISS, {semconv.REASON: "lost"})
