"""Each token of an answer is written once, and an answer without any still says that it goes on."""

from orchestrator.entry import Entry
from orchestrator.journal_store import MISSING, TAKEN, WRITTEN
from outrider.wire import Numerics
from tests.unit.clock import Clock


def begun(tokens: list[int]) -> Entry:
    entry = Entry(("t", "s"), "me", b"head", tokens)
    assert not entry.due, "the first write is another one"
    entry.began(len(tokens), WRITTEN)
    return entry


def test_what_came_since_the_last_write_is_written(clock: Clock) -> None:
    entry = begun([1, 2])
    assert not entry.due
    entry.commit([3])
    assert entry.due
    write = entry.write()
    assert (write.start, write.tokens) == (2, b"\x03\0\0\0")
    entry.commit([4])
    entry.wrote(write, WRITTEN)
    assert (entry.due, entry.write().start) == (True, 3), "what came while it was written is next"


def test_an_answer_that_waits_says_so_once_a_second(clock: Clock) -> None:
    entry = begun([])
    clock.now += 0.9
    assert not entry.due
    clock.now += 0.2
    assert entry.due
    entry.wrote(entry.write(), WRITTEN)
    assert not entry.due


def test_numerics_are_told_once_and_again_after_all_was_lost(clock: Clock) -> None:
    entry = begun([1])
    assert entry.write().numerics == b""
    entry.numerics = Numerics("hardware")
    first = entry.write()
    assert first.numerics
    entry.wrote(first, WRITTEN)
    assert entry.write().numerics == b""
    entry.wrote(entry.write(), MISSING)
    entry.began(1, WRITTEN)
    assert entry.write().numerics == first.numerics


def test_what_broke_off_unwritten_has_no_point(clock: Clock) -> None:
    entry = Entry(("t", "s"), "me", b"head", [1])
    assert not entry.pointless
    entry.over(None, 0, last=False)
    assert entry.pointless
    entry.over(b"history", 1, last=False)
    assert (entry.pointless, entry.end().what) == (False, "kept")


def test_an_answer_that_another_one_makes_is_superseded(clock: Clock) -> None:
    for result in (WRITTEN, MISSING):
        entry = begun([1])
        entry.wrote(entry.write(), result)
        assert not entry.superseded
    entry.wrote(entry.write(), TAKEN)
    assert entry.superseded
    other = begun([1])
    other.began(1, TAKEN)
    assert other.superseded
