"""An answer's events are told in order, its spans once, its end whatever it is; and whoever goes away ends it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from orchestrator.recorder import Keeping, Recorder, RequestTrace
from orchestrator.web import answering
from orchestrator.web.answering import Answering, Spans
from outrider.errors import InvalidArgument, Unavailable
from outrider.spans import LightSpan
from outrider.v1 import orchestrator_pb2 as pb
from tests.unit.web.asgi import Client
from tests.waiting import eventually

STARTED = pb.GenerateResponse(started=pb.Started(session_id="s", seed=2**63))
DELTA = pb.GenerateResponse(delta=pb.Delta(text="fox", token_ids=[7], round=pb.RoundStats(round=0)))
FINISHED = pb.GenerateResponse(finished=pb.Finished(reason=pb.FINISH_REASON_STOP))


class Names:
    """Stands for what writes spans: their names as JSON."""

    async def otlp(self, spans: Sequence[LightSpan]) -> str:
        return json.dumps([span.name for span in spans])


@dataclass(slots=True)
class Service:
    """Tells what a test says; ``ended`` when its handler has."""

    steps: Sequence[pb.GenerateResponse | Exception | asyncio.Event]
    trace: RequestTrace = field(default_factory=lambda: Recorder(Keeping()).begin(None))
    ended: bool = False

    async def generate(self) -> AsyncGenerator[pb.GenerateResponse, None]:
        try:
            for number, step in enumerate(self.steps):
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                    continue
                span = LightSpan(self.trace, f"round {number}", 1)
                span.note(f"exchange {number}", SpanKind.CLIENT, 1, 2, lambda about: {}, None)
                span.end()
                yield step
        finally:
            LightSpan(self.trace, "generate", 1).end()
            self.ended = True

    def app(self, found: bool = True) -> Answering:
        looking: Any = Names()
        return Answering(self.generate(), Spans(looking), lambda session_id: self.trace if found else None)


async def test_events_come_in_order_each_followed_by_the_spans_that_have_ended() -> None:
    """Spans that were noted come before the one that they were noted in; the request's own comes last."""
    client = await Client().ask(Service([STARTED, DELTA, FINISHED]).app())
    assert (client.status, client.got["content-type"]) == (200, "text/event-stream; charset=utf-8")
    names = [name for name, _ in client.events]
    assert names == ["started", "spans", "delta", "spans", "finished", "spans", "spans"]
    told = [name for kind, data in client.events if kind == "spans" for name in data]
    rounds = [name for number in range(3) for name in (f"exchange {number}", f"round {number}")]
    assert told == [*rounds, "generate"]
    assert client.complete


async def test_messages_have_the_names_of_the_protocol_and_what_is_zero_too() -> None:
    events = dict((await Client().ask(Service([STARTED, DELTA]).app())).events)
    assert events["started"]["seed"] == str(2**63), "64 bits are text in JSON"
    assert events["delta"]["round"]["num_accepted"] == 0


async def test_where_nothing_is_remembered_the_answer_comes_without_spans() -> None:
    client = await Client().ask(Service([STARTED, DELTA, FINISHED]).app(found=False))
    assert [name for name, _ in client.events] == ["started", "delta", "finished"]


async def test_an_error_before_the_first_event_is_a_whole_answer() -> None:
    service = Service([InvalidArgument("n", "only 1")])
    client = await Client().ask(service.app())
    assert (client.status, client.error["field"]) == (400, "n")
    assert service.ended


async def test_an_error_after_it_is_the_last_event() -> None:
    client = await Client().ask(Service([STARTED, DELTA, Unavailable("it drains", retry_after_s=1.0)]).app())
    name, data = client.events[-1]
    assert (name, data["code"], data["retry_after_s"]) == ("error", "UNAVAILABLE", 1.0)
    assert client.events[-2] == ("spans", ["generate"])
    assert client.complete


@pytest.mark.parametrize("begun", [True, False])
async def test_what_is_not_ours_is_logged_and_not_told(begun: bool, caplog: pytest.LogCaptureFixture) -> None:
    steps: list[Any] = [STARTED] * begun + [RuntimeError("the secret is 42")]
    client = await Client().ask(Service(steps).app())
    assert "internal error" in client.text
    assert "secret" not in client.text
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.parametrize("told", [[], [STARTED, DELTA]], ids=["before the first event", "in the middle"])
async def test_an_answer_whose_client_goes_away_is_given_up_wherever_it_is(told: list[pb.GenerateResponse]) -> None:
    service, client = Service([*told, asyncio.Event()]), Client()
    asking = asyncio.create_task(client.ask(service.app()))
    await eventually(lambda: len(client.sent) >= len(told), "it was told so far")
    client.gone.set()
    await asking
    assert service.ended


async def test_one_whose_client_does_not_read_is_not_made_further_and_ends_with_it() -> None:
    service, client = Service([STARTED, DELTA, DELTA, DELTA]), Client()
    client.reads.clear()
    asking = asyncio.create_task(client.ask(service.app()))
    await eventually(lambda: client.stalls, "the first event waits to be read")
    assert len(service.trace.kept) == 1
    client.gone.set()
    await asking
    assert service.ended


async def test_one_that_is_given_up_from_inside_is_left_without_an_end() -> None:
    """As with a client that has not read for too long: the task that tells is cancelled."""
    tasks: list[asyncio.Task[Any]] = []

    async def generate() -> AsyncIterator[pb.GenerateResponse]:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        yield STARTED
        task.cancel()
        await asyncio.Event().wait()
        yield DELTA

    looking: Any = Names()
    events: Any = generate()
    client = await Client().ask(Answering(events, Spans(looking), lambda session_id: None))
    assert [name for name, _ in client.events] == ["started"]
    assert not client.complete
    assert tasks[0].cancelled()


async def test_a_silent_answer_shows_signs_of_life_once_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that, the status is still to be told."""
    waits, wait = 0, asyncio.wait

    async def counted(*tasks: Any, **how: Any) -> Any:
        nonlocal waits
        waits += 1
        return await wait(*tasks, **how)

    monkeypatch.setattr(answering, "_PING_S", 0.001)
    monkeypatch.setattr(asyncio, "wait", counted)
    before, within = asyncio.Event(), asyncio.Event()
    client = Client()
    asking = asyncio.create_task(client.ask(Service([before, STARTED, within, FINISHED]).app(found=False)))
    await eventually(lambda: waits > 3, "it was time for a sign of life")
    assert not client.sent
    before.set()
    await eventually(lambda: client.text.count(": still here\n\n") >= 2, "signs of life")
    within.set()
    await asking
    assert [name for name, _ in client.events] == ["started", "finished"]
