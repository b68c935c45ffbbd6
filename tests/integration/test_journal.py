"""The journal on a real Redis: written beside the answers, read by others, owned by one, and missed by nobody."""

import asyncio
import logging

import pytest

from orchestrator.config import OrchestratorConfig
from orchestrator.history import History
from orchestrator.journal import Journal, JournalState
from orchestrator.journal_messages import write_answer, write_tokens
from orchestrator.journal_store import MISSING, TAKEN, WRITTEN, Begin, JournalStore, Write
from orchestrator.request import read_turn
from outrider.errors import Unavailable
from outrider.v1.orchestrator_pb2 import GenerateRequest
from outrider.wire import Numerics
from tests.redis_server import redis_server
from tests.waiting import eventually, until

KEY = ("tenant", "a" * 32)
REQUEST = GenerateRequest(prompt="hi")
HISTORY = History((1, 2), None, 1, "print")
HEAD = write_answer(REQUEST, read_turn(REQUEST, OrchestratorConfig("folder"), 10, 4), HISTORY, "w")


def journal(url: str, resume_s: float = 60.0, session_s: float = 60.0) -> Journal:
    return Journal(JournalStore(url), resume_s, session_s)


async def test_tokens_are_there_for_another_one_after_a_write() -> None:
    async with redis_server() as server, server.client() as client:
        mine, others = journal(server.url), journal(server.url)
        entry = mine.begin(KEY, HEAD, (3,))
        entry.commit([4, 5])
        await mine.flush()
        entry.commit([6])
        entry.numerics = Numerics("hardware", "build", "dtype", "path")
        await mine.flush()
        lost = await others.lost(KEY)
        assert lost is not None
        assert lost.numerics == entry.numerics
        assert (lost.tokens, lost.history, lost.request.prompt, lost.head) == ((3, 4, 5, 6), HISTORY, "hi", HEAD)
        assert await others.lost(("other", KEY[1])) is None, "a tenant sees its own only"
        keys = await client.keys("*")
        assert keys == [f"outrider:answer:{KEY[1]}:{KEY[0]}"]
        assert 0 < await client.pttl(keys[0]) <= 60_000, "it expires as a whole"
        await mine.close()
        await others.close()


async def test_who_goes_on_with_an_answer_owns_it_and_its_former_maker_is_told() -> None:
    async with redis_server() as server:
        mine, others = journal(server.url), journal(server.url)
        former = mine.begin(KEY, HEAD)
        former.commit([1, 2, 3])
        await mine.flush()
        entry = others.begin(KEY, HEAD, (1, 2), former.owner)
        await others.flush()
        former.commit([9])
        await mine.flush()
        assert (former.superseded, entry.superseded) == (True, False)
        mine.end(former, History((7,), None, 9), last=False)
        entry.commit([3])
        await others.flush()
        await mine.flush()
        lost = await mine.lost(KEY)
        assert lost is not None
        assert lost.tokens == (1, 2, 3)
        assert (await mine.session(KEY)).history is None, "who does not own it keeps nothing"
        await mine.close()
        await others.close()


async def test_within_one_orchestrator_it_is_told_at_once() -> None:
    async with redis_server() as server:
        mine = journal(server.url)
        former = mine.begin(KEY, HEAD)
        entry = mine.begin(KEY, HEAD)
        assert (former.superseded, entry.superseded) == (True, False)
        await mine.flush()
        assert not entry.superseded
        await mine.close()


async def test_a_session_is_kept_between_turns_and_dropped_after_its_last() -> None:
    async with redis_server() as server, server.client() as client:
        mine, others = journal(server.url, session_s=30.0), journal(server.url)
        first = mine.begin(KEY, HEAD)
        mine.end(first, HISTORY, last=False)
        await mine.flush()
        kept = await others.session(KEY)
        assert (kept.history, kept.answering, kept.owner) == (HISTORY, False, first.owner)
        assert 0 < await client.pttl(f"outrider:session:{KEY[1]}:{KEY[0]}") <= 30_000
        second = mine.begin(KEY, HEAD, former=first.owner)
        await mine.flush()
        assert (await others.session(KEY)).answering, "one turn at a time"
        assert not (await mine.session(KEY)).answering, "who makes it himself knows better"
        mine.end(second, None, last=False)
        await mine.flush()
        kept = await others.session(KEY)
        assert (kept.history, kept.answering) == (HISTORY, False), "a turn that failed changes nothing"
        mine.end(mine.begin(KEY, HEAD, former=second.owner), None, last=True)
        await mine.flush()
        assert (await others.session(KEY)).history is None
        assert await others.lost(KEY) is not None, "who missed its end can still have it"
        await mine.close()
        await others.close()


async def test_answers_and_sessions_expire() -> None:
    async with redis_server() as server, server.client() as client:
        mine = journal(server.url, resume_s=1.0, session_s=1.0)
        mine.end(mine.begin(KEY, HEAD), HISTORY, last=False)
        await mine.flush()
        assert len(await client.keys("*")) == 2

        async def nothing_left() -> bool:
            return await client.keys("*") == []

        await until(nothing_left, "both keys have expired")
        await mine.close()


async def test_a_journal_that_was_emptied_is_written_anew() -> None:
    async with redis_server() as server, server.client() as client:
        mine = journal(server.url)
        entry = mine.begin(KEY, HEAD)
        entry.commit([1, 2])
        await mine.flush()
        await client.flushall()
        entry.commit([3])
        await mine.flush()
        lost = await mine.lost(KEY)
        assert lost is not None
        assert lost.tokens == (1, 2, 3)
        await mine.close()


@pytest.mark.parametrize("how", ["frozen", "gone"])
async def test_with_the_journal_away_answers_go_on_and_what_was_missed_is_written_later(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with redis_server() as server:
        mine = journal(server.url)
        running, over = mine.begin(KEY, HEAD), mine.begin(("", "b" * 32), HEAD)
        await mine.flush()
        if how == "frozen":
            await server.freeze()
        else:
            await server.stop()
        running.commit([1])
        mine.end(over, HISTORY, last=False)
        with caplog.at_level(logging.WARNING):
            await mine.flush()
            await mine.flush()
        assert mine.state is JournalState.UNAVAILABLE
        assert len(caplog.records) == 1, "it is said once"
        with pytest.raises(Unavailable, match="journal does not answer"):
            await mine.lost(KEY)
        if how == "frozen":
            server.thaw()
            await eventually_flushed(mine)
            lost = await mine.lost(KEY)
            assert lost is not None
            assert lost.tokens == (1,)
            assert (await mine.session(("", "b" * 32))).history == HISTORY
        await mine.close()


async def eventually_flushed(mine: Journal) -> None:
    writing = asyncio.create_task(mine.follow())
    await eventually(lambda: mine.state is JournalState.READY, "the journal is back")
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)


async def test_without_a_store_nothing_is_kept_or_found() -> None:
    mine = Journal(None, 60.0, 60.0)
    assert mine.state is JournalState.ABSENT
    mine.end(mine.begin(KEY, HEAD), HISTORY, last=False)
    await mine.flush()
    assert (await mine.session(KEY)).history is None
    await mine.close()


@pytest.mark.parametrize("session_id", ["", "a", "a" * 32 + ":tenant", "A" * 32, "*", "a" * 31 + "\n"])
async def test_no_session_id_reaches_a_key_of_another_tenant(session_id: str) -> None:
    async with redis_server() as server:
        mine = journal(server.url)
        mine.begin(("", "a" * 32), HEAD)
        mine.begin(("tenant", "a" * 32), HEAD)
        await mine.flush()
        assert await mine.lost(("", session_id)) is None
        await mine.close()


async def test_nonsense_in_the_journal_is_nothing() -> None:
    async with redis_server() as server, server.client() as client:
        mine = journal(server.url)
        await client.hset(f"outrider:answer:{KEY[1]}:{KEY[0]}", mapping={"head": b"\xff\xff", "0": b"123"})
        await client.hset(f"outrider:session:{KEY[1]}:{KEY[0]}", mapping={"turns": 1, "history": b"\xff\xff"})
        assert await mine.lost(KEY) is None
        assert (await mine.session(KEY)).history is None
        await client.delete(f"outrider:session:{KEY[1]}:{KEY[0]}")
        await client.set(f"outrider:session:{KEY[1]}:{KEY[0]}", "of another kind")
        assert (await mine.session(KEY)).history is None
        await mine.close()


async def test_many_answers_share_a_command_and_each_hears_its_own_result() -> None:
    async with redis_server() as server:
        store = JournalStore(server.url)
        keys = [("", f"{number:032x}") for number in range(300)]
        begun = await store.settle([Begin(key, "me", HEAD, b"", "") for key in keys[::2]], 60.0, 60.0)
        assert begun == [WRITTEN] * 150
        writes = [
            Write(key, "me" if number % 3 else "you", 0, write_tokens([number])) for number, key in enumerate(keys)
        ]
        expected = [MISSING if n % 2 else WRITTEN if n % 3 else TAKEN for n in range(300)]
        assert await store.write(writes, 60.0) == expected
        await store.close()


async def test_a_turn_that_was_complete_stays_whatever_begins_and_breaks_off_after_it() -> None:
    """All in one write, as when the next turn comes at once."""
    async with redis_server() as server:
        mine = journal(server.url)
        first = mine.begin(KEY, HEAD)
        await mine.flush()
        mine.end(first, HISTORY, last=False)
        second = mine.begin(KEY, HEAD, former=first.owner)
        mine.end(second, None, last=False)
        third = mine.begin(KEY, HEAD, former=second.owner)
        await mine.flush()
        assert (await mine.session(KEY)).history == HISTORY
        assert not third.superseded
        await mine.close()


async def test_of_two_who_take_an_answer_over_the_first_has_it() -> None:
    async with redis_server() as server:
        mine, others, third = journal(server.url), journal(server.url), journal(server.url)
        former = mine.begin(KEY, HEAD)
        await mine.flush()
        entries = [other.begin(KEY, HEAD, former=former.owner) for other in (others, third)]
        await others.flush()
        await third.flush()
        assert [entry.superseded for entry in entries] == [False, True]
        for each in (mine, others, third):
            await each.close()


async def test_what_broke_off_before_it_was_written_takes_nothing_over() -> None:
    async with redis_server() as server:
        mine, others = journal(server.url), journal(server.url)
        former = mine.begin(KEY, HEAD)
        await mine.flush()
        dead = others.begin(KEY, HEAD, former=former.owner)
        others.end(dead, None, last=False)
        await others.flush()
        former.commit([1])
        await mine.flush()
        assert not former.superseded
        await mine.close()
        await others.close()


async def test_an_older_turn_never_replaces_a_newer_one() -> None:
    async with redis_server() as server:
        mine, others = journal(server.url), journal(server.url)
        slow = mine.begin(KEY, HEAD)
        await mine.flush()
        mine.end(slow, History((1,), None, 1), last=False)
        quick = others.begin(KEY, HEAD, former=slow.owner)
        others.end(quick, History((1, 2), None, 2), last=False)
        await others.flush()
        await mine.flush()
        kept = (await mine.session(KEY)).history
        assert kept is not None
        assert kept.turns == 2
        await mine.close()
        await others.close()
