"""How long the engine waits for sessions that are away between two rounds."""

from outrider.inference.gather import Gather
from outrider.inference.stream import Stream


def after_rounds(return_s: float, pass_s: float, stream: Stream) -> tuple[Gather, float]:
    """A gather that has seen a hundred rounds of a session, which has just left again; and the time of that."""
    gather, now = Gather(), 100.0
    for _ in range(100):
        now += pass_s
        gather.note_pass(pass_s, now)
        gather.left("a", stream, now)
        now += return_s
        gather.came_back("a", now)
    gather.note_pass(pass_s, now)
    gather.left("a", stream, now)
    return gather, now


def test_a_fresh_engine_does_not_wait() -> None:
    """Nothing was measured, so nothing is waited for."""
    assert Gather().patience(1.0) == 0.0


def test_waits_for_sessions_that_come_back_faster_than_a_pass() -> None:
    """Twice the average time of return, when that is less than a pass; less of it as time goes by."""
    gather, now = after_rounds(0.002, 0.010, Stream())
    assert 0.003 < gather.patience(now) <= 0.0041
    assert 0.001 < gather.patience(now + 0.002) < 0.0021
    assert gather.patience(now + 1.0) == 0.0


def test_does_not_wait_when_all_are_back_or_gone() -> None:
    stream = Stream()
    gather, now = after_rounds(0.002, 0.010, stream)
    stream.open = False
    assert gather.patience(now) == 0.0
    stream.open = True
    gather.came_back("a", now)
    assert gather.patience(now) == 0.0


def test_does_not_wait_for_sessions_of_an_earlier_pass() -> None:
    """They did not come back in time once; the next pass does not wait for them again."""
    gather, now = after_rounds(0.002, 0.010, Stream())
    gather.note_pass(0.010, now + 0.010)
    assert gather.patience(now + 0.010) == 0.0


def test_does_not_wait_for_sessions_that_fetch_a_draft_in_between() -> None:
    """Those who will not be back within a pass are not waited for."""
    gather, now = after_rounds(0.030, 0.010, Stream())
    assert gather.patience(now) == 0.0


def test_streams_that_ended_leave_nothing_behind() -> None:
    stream = Stream()
    gather, now = after_rounds(0.002, 0.010, stream)
    stream.open = False
    gather.forget_closed()
    stream.open = True
    assert gather.patience(now) == 0.0


def test_waits_only_while_the_others_lose_less_by_it() -> None:
    """One that is away and would lose a pass of 10 ms, against so many that wait 4 ms each."""
    gather, now = after_rounds(0.002, 0.010, Stream())
    assert gather.patience(now, here=2) > 0.0
    assert gather.patience(now, here=3) == 0.0
    assert gather.patience(now + 0.002, here=3) > 0.0
