"""Where a round's draft tokens come from; a draft in trouble costs a fault and holds nothing up."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import INVALID_SPAN, Span

from orchestrator.caches import CacheView
from orchestrator.drafting import Drafting
from orchestrator.plans import Drafter, Plan
from outrider import semconv
from outrider.errors import Unavailable
from outrider.tokens import Claim, TokenLog
from tests.unit.peers import FakeDraft, failing
from tests.unit.scripted import continuation, next_token

PROMPT = (3, 1, 4, 1, 5)
MODEL = Plan(Drafter.MODEL, 3)
AHEAD = Plan(Drafter.MODEL, 3, look_ahead=True, fanout=(1, 1, 1, 1))


def drafting(draft: Any) -> Drafting:
    return Drafting(TokenLog(PROMPT), draft, CacheView())


def commit(made: Drafting, tokens: list[int]) -> None:
    """All of the block was accepted, the last token is the target's."""
    valid = len(made.log) + len(tokens) - 1
    made.log.extend(tokens)
    made.committed(tokens, valid)


async def sent(made: Drafting) -> None:
    """Wait until a look-ahead has left."""
    assert made._asking is not None
    await asyncio.wait({made._asking})


@dataclass
class Hung(FakeDraft):
    """A draft whose look-aheads do not leave until it is let go, which ends in trouble."""

    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def look_ahead(self, *args: Any) -> None:
        await self.let_go.wait()
        self.available = False
        raise Unavailable("no answer within 2 s")


async def test_a_block_that_was_prepared_for_the_outcome_is_taken_up_without_asking() -> None:
    draft = FakeDraft()
    made = drafting(draft)
    block = (await made.guess(AHEAD, 0, INVALID_SPAN)).tokens
    made.look_ahead(AHEAD, 0, block, INVALID_SPAN)
    await sent(made)
    after = next_token([*PROMPT, *block])
    commit(made, [*block, after])
    assert made.collect(0, 3, after, INVALID_SPAN) is True
    guess = await made.guess(MODEL, 1, INVALID_SPAN)
    assert (guess.tokens, guess.prepared) == (tuple(continuation([*PROMPT, *block, after], 3)), True)
    assert len(draft.claims) == 1


async def test_a_plan_without_a_drafter_asks_nobody_and_forgets_what_was_prepared() -> None:
    draft = FakeDraft()
    made = drafting(draft)
    made._ready = (1, 2)
    assert (await made.guess(Plan(), 0, INVALID_SPAN)).tokens == ()
    assert (made.ready, draft.claims) == (0, [])


async def test_a_draft_that_hangs_in_a_look_ahead_is_not_asked_again_by_the_round_that_waited_for_it() -> None:
    """The wait is that of the look-ahead alone, and the trouble counts for one round."""
    draft = Hung()
    made = drafting(draft)
    made.look_ahead(AHEAD, 0, (9, 9, 9), INVALID_SPAN)
    await asyncio.sleep(0)
    assert made.collect(0, 0, 1, INVALID_SPAN) is False
    asking = asyncio.create_task(made.guess(MODEL, 1, INVALID_SPAN))
    await asyncio.sleep(0)
    draft.let_go.set()
    assert (await asking).tokens == ()
    assert draft.claims == []
    assert made.faults == 2, "the look-ahead's round and the one that got no block"


async def test_trouble_counts_once_in_a_round() -> None:
    made = drafting(FakeDraft([failing]))
    for _ in range(2):
        await made.guess(MODEL, 5, INVALID_SPAN)
    made.missing(5)
    assert made.faults == 1


async def test_trouble_that_comes_after_its_round_is_told_in_the_next_ones_span() -> None:
    tracer = TracerProvider().get_tracer("test")
    first, second = tracer.start_span("first"), tracer.start_span("second")
    draft = Hung()
    made = drafting(draft)
    made.look_ahead(AHEAD, 0, (9, 9, 9), first)
    first.end()
    draft.let_go.set()
    await sent(made)
    await made.guess(Plan(), 1, second)
    events: Any = second
    assert [event.name for event in events.events] == [semconv.EVENT_DRAFT_FAULT]
    await made.guess(Plan(), 2, second)
    assert len(events.events) == 1


@pytest.mark.filterwarnings("error")
async def test_closing_drops_a_look_ahead_that_had_no_time_to_leave() -> None:
    made = drafting(FakeDraft())
    made.look_ahead(AHEAD, 0, (9, 9, 9), INVALID_SPAN)
    await made.aclose()
    assert made._asking is not None
    assert made._asking.cancelled()


async def test_closing_can_itself_be_cancelled() -> None:
    """Whoever closes is told of its own cancellation, even while the draft takes its time to end."""

    class Stubborn(FakeDraft):
        async def look_ahead(
            self, number: int, claim: Claim, block: tuple[int, ...], fanout: tuple[int, ...], count: int, span: Span
        ) -> None:
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if leave.is_set():
                        raise

    leave = asyncio.Event()
    made = drafting(Stubborn())
    made.look_ahead(AHEAD, 0, (9, 9, 9), INVALID_SPAN)
    await asyncio.sleep(0)
    closing = asyncio.create_task(made.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    leave.set()
    await made.aclose()
