"""Whatever becomes of a stream, its caller hears the one right answer, each token once, or an error of ours."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.client import Answer, Ask, Client, Delta, Event, Finished, Message, Started
from outrider.errors import (
    DeadlineExceeded,
    IncompatibleReplica,
    InvalidArgument,
    OutriderError,
    ResourceExhausted,
    SessionBusy,
    Unauthenticated,
    Unavailable,
)
from tests.unit.client.orchestrators import Fault, Running, orchestrators, text_of, tokens_of
from tests.waiting import eventually

COUNT = 30
ASK = Ask(token_ids=[1], seed=7, max_new_tokens=COUNT, logprobs=True)
BREAKS = st.lists(st.integers(-1, COUNT), max_size=6)


def check(answer: Answer, seed: int = 7, prompt: tuple[int, ...] = (1,)) -> None:
    """It is the right one, whole."""
    tokens = tokens_of(seed, COUNT, prompt)
    assert list(answer.token_ids) == tokens
    assert answer.text == text_of(tokens, COUNT, True)
    assert answer.logprobs == pytest.approx([-token / 1000 for token in tokens])


def client_of(running: Running, timeout_s: float = 30.0, stall_s: float = 30.0, patience_s: float = 10.0) -> Client:
    return Client(*running.addresses, timeout_s=timeout_s, stall_s=stall_s, patience_s=patience_s)


async def test_a_whole_answer_is_started_deltas_and_finished() -> None:
    async with orchestrators() as running, client_of(running) as client:
        events = [event async for event in client.stream(ASK)]
        assert isinstance(events[0], Started)
        assert all(isinstance(event, Delta) for event in events[1:-1])
        assert isinstance(events[-1], Finished)
        assert events[-1].losses == 0
        assert (events[0].seed, events[0].prompt_tokens) == (7, 1)
        heard: list[Delta] = []
        answer = await client.answer(ASK, heard.append)
        check(answer)
        assert tuple(token for delta in heard for token in delta.token_ids) == answer.token_ids


@settings(max_examples=40)
@given(breaks=BREAKS, journals=st.booleans())
async def test_wherever_streams_break_nothing_is_lost_or_doubled(breaks: list[int], journals: bool) -> None:
    """Breaks come at any orchestrator, before Started, at any token, and where all of it but the end was told."""
    async with orchestrators(journals=journals) as running, client_of(running) as client:
        for number, after in enumerate(breaks):
            running.all[number % 2].faults.append(Fault(after))
        check(await client.answer(ASK))


@settings(max_examples=30)
@given(breaks=BREAKS, journals=st.booleans())
async def test_a_turn_of_a_session_happens_once_wherever_streams_break(breaks: list[int], journals: bool) -> None:
    async with orchestrators(journals=journals) as running, client_of(running) as client:
        first = await client.answer(Ask(token_ids=[1], seed=7, max_new_tokens=COUNT, logprobs=True, keep_session=True))
        for number, after in enumerate(breaks):
            running.all[number % 2].faults.append(Fault(after))
        second = await client.answer(
            Ask(
                token_ids=[2],
                seed=7,
                max_new_tokens=COUNT,
                logprobs=True,
                session_id=first.session_id,
                keep_session=True,
            )
        )
        check(second, prompt=(1, *first.token_ids, 2))
        assert running.journal.sessions[first.session_id] == ([1, *first.token_ids, 2, *second.token_ids], 2)


async def test_a_turn_that_was_made_although_its_stream_was_lost_before_it_began_is_not_made_again() -> None:
    async with orchestrators() as running, client_of(running) as client:
        first = await client.answer(Ask(token_ids=[1], max_new_tokens=COUNT, keep_session=True))
        for orchestrator in running.all:
            orchestrator.faults.append(Fault(completes=True))
        ask = Ask(token_ids=[2], max_new_tokens=COUNT, session_id=first.session_id, keep_session=True)
        second = await client.answer(ask)
        assert running.journal.sessions[first.session_id] == ([1, *first.token_ids, 2, *second.token_ids], 2)


async def test_the_rest_comes_from_the_journal_and_without_one_the_same_seed_is_asked_again() -> None:
    for journals in (True, False):
        async with orchestrators(journals=journals) as running, client_of(running) as client:
            running.all[0].faults.append(Fault(after=11))
            answer = await client.answer(ASK)
            check(answer)
            assert answer.finished.losses == 1
            resumption, *others = running.all[1].requests
            assert (resumption.session_id, resumption.resume_from) == (answer.started.session_id, 11) or not journals
            assert [other.sampling.seed for other in others] == ([] if journals else [7])


async def test_a_seed_is_drawn_once_for_all_attempts() -> None:
    async with orchestrators(journals=False) as running, client_of(running) as client:
        running.all[0].faults.append(Fault(after=9))
        answer = await client.answer(Ask(token_ids=[1], max_new_tokens=COUNT))
        asked = {request.sampling.seed for each in running.all for request in each.requests if request.max_new_tokens}
        assert asked == {answer.seed}
        check_tokens = tokens_of(answer.seed, COUNT)
        assert list(answer.token_ids) == check_tokens
        assert (await client.answer(Ask(token_ids=[1], max_new_tokens=3))).seed != answer.seed


async def test_other_tokens_than_before_are_no_answer() -> None:
    async with orchestrators(journals=False) as running, client_of(running) as client:
        running.all[0].faults.append(Fault(after=9))
        running.all[1].faults += [
            Fault(after=1 << 30),
            Fault(after=1 << 30, wrong=True),
        ]  # the first is asked to resume
        with pytest.raises(OutriderError, match="differs"):
            await client.answer(ASK)


async def test_a_session_that_is_gone_says_that_the_answer_is_lost() -> None:
    async with orchestrators(count=1, journals=False) as running, client_of(running) as client:
        first = await client.answer(Ask(token_ids=[1], max_new_tokens=4, keep_session=True))
        running.all[0].faults.append(Fault(after=3))
        events = client.stream(Ask(token_ids=[2], max_new_tokens=9, session_id=first.session_id))
        with pytest.raises(Unavailable, match="the answer was lost, and nobody can go on with it"):
            async for event in events:
                if isinstance(event, Delta):
                    running.journal.sessions.clear()


@pytest.mark.parametrize(
    "error",
    [InvalidArgument("stop", "is odd"), Unauthenticated("who?"), IncompatibleReplica("no"), OutriderError("internal")],
)
async def test_what_is_the_callers_is_raised_at_once(error: OutriderError) -> None:
    async with orchestrators() as running, client_of(running) as client:
        running.all[0].faults.append(Fault(error=error))
        with pytest.raises(type(error)) as raised:
            await client.answer(ASK)
        assert raised.value.message == error.message
        assert running.calls == 1


@pytest.mark.parametrize("error", [Unavailable("drains"), SessionBusy("busy"), ResourceExhausted("full", 0.01)])
async def test_what_passes_is_tried_again(error: OutriderError) -> None:
    async with orchestrators() as running, client_of(running) as client:
        for orchestrator in running.all:
            orchestrator.faults.append(Fault(error=error))
        check(await client.answer(ASK))


async def test_who_is_full_is_asked_again_when_it_said() -> None:
    async with orchestrators(count=1) as running, client_of(running) as client:
        running.all[0].faults.append(Fault(error=ResourceExhausted("full", 0.3)))
        began = time.monotonic()
        check(await client.answer(ASK))
        assert time.monotonic() - began >= 0.3


async def test_patience_ends_with_the_last_error() -> None:
    async with orchestrators() as running, client_of(running, patience_s=0.0) as client:
        for orchestrator in running.all:
            orchestrator.faults.append(Fault(error=Unavailable("no target")))
        with pytest.raises(Unavailable, match="no target"):
            await client.answer(ASK)
        assert running.calls == 2, "each was tried once"
        running.all[0].faults.append(Fault(error=ResourceExhausted("in debt", 60.0)))
        with pytest.raises(ResourceExhausted, match="in debt"):
            await client.answer(ASK)


async def test_the_time_of_an_answer_bounds_all_attempts_and_travels_with_them() -> None:
    async with orchestrators() as running, client_of(running, timeout_s=0.5) as client:
        for orchestrator in running.all:
            orchestrator.faults += [Fault(error=Unavailable("away"))] * 100
        with pytest.raises(DeadlineExceeded, match=r"0\.5 s"):
            await client.answer(ASK)
        left = [seconds for each in running.all for seconds in each.left_s if seconds is not None]
        assert len(left) == running.calls >= 2
        assert max(left) <= 0.5 and min(left) < max(left)


async def test_a_deadline_in_the_middle_of_a_stream_is_the_callers() -> None:
    async with orchestrators(count=1) as running, client_of(running, timeout_s=0.4) as client:
        running.all[0].faults.append(Fault(after=3, hang=True))
        with pytest.raises(DeadlineExceeded):
            await client.answer(ASK)


async def test_a_frozen_orchestrator_is_left_for_another_one() -> None:
    """It keeps its connection and answers nothing at all."""
    async with orchestrators() as running, client_of(running, stall_s=0.2) as client:
        running.all[0].faults += [Fault(after=5, hang=True), Fault(hang=True)]
        answer = await client.answer(ASK)
        check(answer)
        assert answer.finished.losses == 1


async def test_silence_of_one_that_lives_is_waited_for() -> None:
    async with orchestrators(count=1) as running, client_of(running, stall_s=0.05) as client:
        running.all[0].faults.append(Fault(after=5, hang=True))
        asking = asyncio.create_task(client.answer(ASK))
        await eventually(lambda: running.all[0].looks >= 4, "it was silent four times over, and asked each time")
        assert not asking.done()
        assert running.calls == 1
        running.all[0].frozen.set()
        check(await asking)


async def test_a_caller_that_takes_its_time_is_no_stall() -> None:
    async with orchestrators(count=1) as running, client_of(running, stall_s=0.05) as client:
        running.all[0].faults += [Fault(1 << 30), Fault(hang=True)]
        events = [event async for event in _slowly(client)]
        assert isinstance(events[-1], Finished)
        assert running.calls == 1


async def _slowly(client: Client) -> AsyncIterator[Event]:
    async with aclosing(client.stream(ASK)) as events:
        async for event in events:
            if isinstance(event, Started):
                await asyncio.sleep(0.3)
            yield event


async def test_a_caller_that_is_cancelled_is_cancelled() -> None:
    async with orchestrators(count=1) as running, client_of(running, stall_s=0.2) as client:
        running.all[0].faults.append(Fault(after=5, hang=True))
        asking = asyncio.create_task(client.answer(ASK))
        await eventually(lambda: running.calls, "it is asked")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_nobody_there_is_said_with_the_address() -> None:
    async with Client("127.0.0.1:1", patience_s=0.0) as client:
        with pytest.raises(Unavailable, match=r"no orchestrator at 127\.0\.0\.1:1"):
            await client.answer(ASK)
        with pytest.raises(Unavailable, match=r"no orchestrator at 127\.0\.0\.1:1"):
            await client.info()


async def test_one_that_is_gone_costs_nothing_when_another_is_there() -> None:
    async with orchestrators(count=1) as running, Client("127.0.0.1:1", *running.addresses) as client:
        assert (await client.info()).protocol_version == 1
        for _ in range(3):
            check(await client.answer(ASK))


async def test_the_key_and_the_tenant_go_with_every_call() -> None:
    async with orchestrators() as running:
        async with Client(*running.addresses, api_key="secret", tenant="fox") as client:
            running.all[0].faults.append(Fault(after=4))
            check(await client.answer(ASK))
        calls = [(each, n) for each in running.all for n in range(len(each.requests))]
        assert [each.requests[n].tenant for each, n in calls] == ["fox", "fox"]
        assert [each.metadata[n]["authorization"] for each, n in calls] == ["Bearer secret"] * 2


async def test_turns_of_a_session_go_where_its_caches_are_and_others_are_spread() -> None:
    async with orchestrators() as running, client_of(running) as client:
        first = await client.answer(Ask(token_ids=[1], max_new_tokens=4, keep_session=True))
        for _ in range(4):
            await client.answer(Ask(token_ids=[2], max_new_tokens=4, session_id=first.session_id, keep_session=True))
        assert sorted(len(each.requests) for each in running.all) == [0, 5]
        for _ in range(4):
            await client.answer(ASK)
        assert min(len(each.requests) for each in running.all) >= 2


async def test_every_field_of_an_ask_is_sent() -> None:
    async with orchestrators(count=1) as running, client_of(running) as client:
        ask = Ask(
            messages=[Message("user", "hi")],
            seed=3,
            max_new_tokens=4,
            stop=["x"],
            stop_token_ids=[5],
            draft_tokens=2,
            logprobs=True,
            ignore_eos=True,
            keep_session=True,
            tenant="own",
        )
        await client.answer(ask)
        sent = running.all[0].requests[0]
        assert (sent.chat.messages[0].content, list(sent.stop), list(sent.stop_token_ids)) == ("hi", ["x"], [5])
        assert (sent.speculation.draft_tokens, sent.logprobs, sent.ignore_eos, sent.keep_session) == (
            2,
            True,
            True,
            True,
        )
        assert (sent.tenant, sent.sampling.seed, sent.max_new_tokens) == ("own", 3, 4)


async def test_what_cannot_be_sent_is_refused_here() -> None:
    with pytest.raises(InvalidArgument, match="exactly one"):
        Ask(prompt="a", token_ids=[1])
    with pytest.raises(InvalidArgument, match="exactly one"):
        Ask()
    async with Client("127.0.0.1:1") as client:
        with pytest.raises(InvalidArgument, match="cannot be sent"):
            await client.answer(Ask(token_ids=[-1]))


def test_addresses_are_checked() -> None:
    for addresses in ((), ("",), ("a:1", "a:1")):
        with pytest.raises(InvalidArgument, match="addresses"):
            Client(*addresses)


@pytest.mark.parametrize("seed", [7, 8])
async def test_a_journal_that_still_has_the_turn_before_does_not_pass_it_off_as_this_one(seed: int) -> None:
    """An orchestrator that dies with a turn unwritten: whoever is asked for the rest finds the last turn's answer."""
    async with orchestrators() as running, client_of(running) as client:
        first = await client.answer(Ask(token_ids=[1], seed=7, max_new_tokens=COUNT, keep_session=True))
        owner, other = sorted(running.all, key=lambda each: -len(each.requests))
        owner.faults.append(Fault(after=5))
        session_id, journal = first.session_id, running.journal.answers
        before = journal[session_id]

        def forget(delta: Delta) -> None:
            if not other.requests:
                journal[session_id] = before

        ask = Ask(token_ids=[2], seed=seed, max_new_tokens=COUNT, logprobs=True, session_id=session_id)
        check(await client.answer(ask, forget), seed, prompt=(1, *first.token_ids, 2))
        assert [request.HasField("resume_from") for request in other.requests] == [True, False]


async def test_a_session_that_only_its_own_orchestrator_knows_is_gone_on_with_there() -> None:
    """Without a journal, and with a connection that breaks in the middle of a turn."""
    async with orchestrators(journals=False) as running, client_of(running) as client:
        first = await client.answer(Ask(token_ids=[1], seed=7, max_new_tokens=COUNT, keep_session=True))
        owner, other = sorted(running.all, key=lambda each: -len(each.requests))
        owner.faults.append(Fault(after=5))
        other.stranger = True
        ask = Ask(token_ids=[2], seed=7, max_new_tokens=COUNT, logprobs=True, session_id=first.session_id)
        check(await client.answer(ask), prompt=(1, *first.token_ids, 2))
