"""Questions that must be answered and those that may be: which answer belongs to which."""

import asyncio
from typing import Any

import grpc
import pytest

from orchestrator.round_stream import RoundStream, StreamOptions
from outrider.errors import ProtocolViolation, Unavailable
from outrider.sampling import SamplingParams
from outrider.v1 import draft_pb2

OPTIONS = StreamOptions("s", SamplingParams(seed=1), 30.0, 5.0)


class Call:
    """A call whose answers a test puts into an inbox."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.sent: list[int] = []
        self.reads = 0
        self.cancelled = False

    async def write(self, request: Any) -> None:
        self.sent.append(request.round)

    async def read(self) -> Any:
        self.reads += 1
        assert self.reads == 1, "two reads at once"
        try:
            answer = await self.inbox.get()
        finally:
            self.reads -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self) -> None:
        self.cancelled = True


def opened() -> tuple[RoundStream, Call]:
    call = Call()
    return RoundStream(lambda timeout: call, OPTIONS), call


def request(number: int) -> draft_pb2.ProposeRequest:
    return draft_pb2.ProposeRequest(round=number, tokens=[1])


def answer(number: int) -> draft_pb2.ProposeResponse:
    return draft_pb2.ProposeResponse(round=number)


async def come(call: Call, *answers: Any) -> None:
    """The answers arrive and whoever reads has read the first."""
    for each in answers:
        call.inbox.put_nowait(each)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_optional_answer_is_there_once_it_has_come() -> None:
    stream, call = opened()
    await stream.send(request(3))
    assert stream.arrived() is None
    await come(call, answer(3))
    assert stream.arrived().round == 3
    assert stream.arrived() is None


async def test_whoever_sends_hears_of_the_answer_when_it_comes() -> None:
    """Before anybody looks; not of one that belongs to an earlier message, nor of an end."""
    for come_first, told in (([answer(3)], [3]), ([answer(2)], []), ([grpc.aio.EOF], []), ([Unavailable("gone")], [])):
        stream, call = opened()
        heard: list[Any] = []
        await stream.send(request(2))
        await stream.send(request(3), heard.append)
        await come(call, *come_first)
        assert [each.round for each in heard] == told
        stream.close()


@pytest.mark.parametrize("late", [True, False])
async def test_an_answer_that_came_too_late_is_passed_over(late: bool) -> None:
    """Whether it comes before the next question or after it; the next question's own answer is taken."""
    stream, call = opened()
    await stream.send(request(3))
    if not late:
        await come(call, answer(3))
    asked = asyncio.create_task(stream.ask(request(4)))
    await come(call, *([answer(3)] if late else []), answer(4))
    assert (await asked).round == 4
    assert call.sent == [3, 4]


async def test_an_unanswered_message_is_passed_over() -> None:
    stream, call = opened()
    await stream.send(request(3))
    asked = asyncio.create_task(stream.ask(request(4)))
    await come(call, answer(4))
    assert (await asked).round == 4
    asked = asyncio.create_task(stream.ask(request(5)))
    await come(call, answer(5))
    assert (await asked).round == 5


async def test_only_the_newest_optional_answer_counts() -> None:
    """The answer to an earlier one, which came when a later one had been sent, is no answer to that."""
    stream, call = opened()
    await stream.send(request(3))
    await stream.send(request(4))
    await come(call, answer(3))
    assert stream.arrived() is None
    assert stream.arrived() is None
    await come(call, answer(4))
    assert stream.arrived().round == 4


async def test_an_answer_to_a_round_that_nobody_asked_for_ends_the_stream() -> None:
    stream, call = opened()
    await stream.send(request(3))
    await come(call, answer(9))
    with pytest.raises(ProtocolViolation, match="round 9"):
        stream.arrived()
    assert call.cancelled


@pytest.mark.parametrize("end", [grpc.aio.EOF, asyncio.InvalidStateError()])
async def test_a_stream_that_ends_meanwhile_is_unavailable_for_whoever_looks_next(end: Any) -> None:
    for looks in (True, False):
        stream, call = opened()
        await stream.send(request(3))
        await come(call, end)
        with pytest.raises(Unavailable):
            if looks:
                stream.arrived()
            else:
                await stream.ask(request(4))


async def test_closing_ends_the_read_that_goes_on() -> None:
    stream, call = opened()
    await stream.send(request(3))
    await come(call)
    stream.close()
    await come(call)
    assert (call.reads, call.cancelled) == (0, True)


async def test_an_optional_answer_that_will_do_is_taken_and_the_asked_one_passed_over() -> None:
    """Whatever is sent next; also when it has the same round."""
    for ask_next in (True, False):
        stream, call = opened()
        await stream.send(request(3))
        asked = asyncio.create_task(stream.ask(request(4), lambda response: response.round == 3))
        await come(call, answer(3))
        assert (await asked).round == 3
        if ask_next:
            asked = asyncio.create_task(stream.ask(request(5)))
            await come(call, answer(4), answer(5))
            assert (await asked).round == 5
        else:
            await stream.send(request(4))
            await come(call, answer(4))
            assert stream.arrived() is None, "the answer to the question that nobody waits for"
            await come(call, answer(4))
            assert stream.arrived().round == 4


async def test_an_optional_answer_that_will_not_do_is_passed_over() -> None:
    stream, call = opened()
    await stream.send(request(3))
    asked = asyncio.create_task(stream.ask(request(4), lambda response: False))
    await come(call, answer(3), answer(4))
    assert (await asked).round == 4


@pytest.mark.parametrize("late", [(), (4,), (4, 5, 6)])
async def test_answers_that_are_not_wanted_any_more_are_passed_over_whether_they_come_or_not(
    late: tuple[int, ...],
) -> None:
    stream, call = opened()
    stream.pass_over(range(4, 9))
    await come(call, *map(answer, late), answer(9))
    assert (await stream.ask(request(9))).round == 9
    await come(call, answer(10))
    assert (await stream.ask(request(10))).round == 10


async def test_the_answer_to_a_question_that_was_passed_over_never_does_for_a_look_ahead_of_its_round() -> None:
    """Both have the number 4: the block of a question for which something prepared was taken instead, then what the
    look-ahead of that round brings. Only the latter may do for round 5."""
    stream, call = opened()
    await stream.send(request(3))
    asked = asyncio.create_task(stream.ask(request(4), lambda response: response.round == 3))
    await come(call, answer(3))
    assert (await asked).round == 3
    await stream.send(request(4))
    offered: list[int] = []

    def will_do(response: Any) -> bool:
        offered.append(response.round)
        return True

    asked = asyncio.create_task(stream.ask(request(5), will_do))
    await come(call, answer(4))
    assert not offered, "the answer to the question"
    await come(call, answer(4))
    assert (await asked).round == 4
    assert offered == [4]
