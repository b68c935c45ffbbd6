"""The next message cuts an answer off, the end of the messages does not, and nothing is read or left behind twice."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from outrider.inference.batcher import Batcher
from outrider.inference.engine import Engine
from outrider.inference.inbox import Inbox
from outrider.inference.rounds import Opening, in_order
from outrider.v1 import common_pb2, draft_pb2
from tests.unit.scripted import ScriptedRunner


class Line:
    """Messages that come when the test sends them."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self.reads = 0

    def send(self, *messages: Any) -> None:
        for message in messages:
            self._queue.put_nowait(message)

    def hang_up(self) -> None:
        self._queue.put_nowait(StopAsyncIteration)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        self.reads += 1
        message = await self._queue.get()
        if message is StopAsyncIteration:
            raise StopAsyncIteration
        if isinstance(message, Exception):
            raise message
        return message


class Answers:
    """Answers that come when the test gives them; notes how they ended."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self.ended = ""

    def give(self, *answers: Any) -> None:
        for answer in answers:
            self._queue.put_nowait(answer)

    async def stream(self) -> AsyncGenerator[Any, None]:
        try:
            while (answer := await self._queue.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
            self.ended = "over"
        except asyncio.CancelledError:
            self.ended = "cut off"
            raise


async def collect(inbox: Inbox, answers: Answers) -> list[Any]:
    return [answer async for answer in inbox.before_next(answers.stream())]


async def settle() -> None:
    """Let everything that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_next_message_cuts_the_answers_off_and_is_read_after_them() -> None:
    line, answers = Line(), Answers()
    inbox = Inbox(line)
    line.send("first")
    assert await anext(inbox) == "first"
    collecting = asyncio.create_task(collect(inbox, answers))
    answers.give("a")
    await settle()
    line.send("second")
    assert (await collecting, answers.ended) == (["a"], "cut off")
    assert (await anext(inbox), line.reads) == ("second", 2)


async def test_answers_that_are_over_leave_the_reading_to_the_next_message() -> None:
    line, answers = Line(), Answers()
    inbox = Inbox(line)
    answers.give("a", "b", None)
    assert (await collect(inbox, answers), answers.ended) == (["a", "b"], "over")
    line.send("next")
    assert (await anext(inbox), line.reads) == ("next", 1)


async def test_the_end_of_the_messages_lets_the_answers_finish() -> None:
    line, answers = Line(), Answers()
    inbox = Inbox(line)
    line.hang_up()
    collecting = asyncio.create_task(collect(inbox, answers))
    await settle()
    answers.give("a", "b", None)
    assert await collecting == ["a", "b"]
    assert [message async for message in inbox] == []


async def test_an_answer_and_a_message_that_come_together_are_both_had() -> None:
    line, answers = Line(), Answers()
    inbox = Inbox(line)
    line.send("next")
    answers.give("a")
    assert await collect(inbox, answers) == ["a"]
    assert await anext(inbox) == "next"


@pytest.mark.parametrize("who", ["line", "answers"])
async def test_errors_come_through(who: str) -> None:
    line, answers = Line(), Answers()
    (line.send if who == "line" else answers.give)(KeyError("k"))
    with pytest.raises(KeyError):
        await collect(Inbox(line), answers)


async def test_cancelling_and_closing_leave_no_task_behind() -> None:
    before = asyncio.all_tasks()
    line, answers = Line(), Answers()
    inbox = Inbox(line)
    collecting = asyncio.create_task(collect(inbox, answers))
    await settle()
    collecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await collecting
    await inbox.close()
    assert (answers.ended, asyncio.all_tasks()) == ("cut off", before)


async def test_cancelling_while_the_next_message_is_awaited_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    line, answers = Line(), Answers()
    inbox = Inbox(line)
    answers.give(None)
    await collect(inbox, answers)
    waiting = asyncio.create_task(anext(inbox))
    await settle()
    waiting.cancel()
    await asyncio.wait({waiting})
    await inbox.close()
    assert asyncio.all_tasks() == before


def request(number: int) -> draft_pb2.ProposeRequest:
    return draft_pb2.ProposeRequest(
        session_id="s", round=number, tokens=[1], sampling=common_pb2.SamplingParams(seed=1)
    )


@contextlib.asynccontextmanager
async def handling(
    yields: Callable[[Any], bool],
) -> AsyncIterator[tuple[Line, dict[int, Answers], list[Any], asyncio.Task[None]]]:
    """A handler over a line, its answers by round, and what it has said."""
    line, said = Line(), []
    answers = {number: Answers() for number in range(3)}
    batcher = Batcher()
    await batcher.start(lambda: Engine(ScriptedRunner()))

    def answer(_: Opening, message: draft_pb2.ProposeRequest) -> AsyncGenerator[Any, None]:
        return answers[message.round].stream()

    async def handle() -> None:
        said.extend([response async for response in in_order(line, batcher, answer, yields)])

    task = asyncio.create_task(handle())
    yield line, answers, said, task
    task.cancel()
    await asyncio.wait({task})
    batcher.close()


async def test_a_message_that_yields_is_ended_by_the_next_one_and_others_are_not() -> None:
    async with handling(lambda message: bool(message.round == 0)) as (line, answers, said, task):
        line.send(request(0), request(1), request(2))
        await settle()
        assert (answers[0].ended, answers[1].ended) == ("cut off", "")
        answers[1].give("one", None)
        answers[2].give("two", None)
        line.hang_up()
        await task
        assert said == ["one", "two"]


async def test_a_handler_that_is_cancelled_ends_what_yields() -> None:
    async with handling(lambda message: True) as (line, answers, said, task):
        line.send(request(0))
        await settle()
        task.cancel()
        await asyncio.wait({task})
        assert (answers[0].ended, said) == ("cut off", [])
