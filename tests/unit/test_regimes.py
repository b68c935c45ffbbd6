"""Several answers go one way: it is measured when all have come over to it, and is given up at once when it loses."""

from orchestrator.plans import Drafter
from orchestrator.regimes import Regimes
from orchestrator.rounds import PLAIN

GAIN = 1.1
"""Over the target alone: some, and no reason to hurry."""
SERIAL, AHEAD = (Drafter.MODEL, False), (Drafter.MODEL, True)


def regime(now: float = 0.0) -> Regimes:
    made = Regimes()
    made.review(4, (SERIAL, 2), GAIN, now)
    return made


def test_it_begins_with_the_target_alone_at_every_load() -> None:
    made = regime()
    assert made.way(3) == made.way(5) == (SERIAL, 2)
    assert made.way(8) == made.way(1) == (PLAIN, 0)


def test_rounds_count_when_all_have_come_over() -> None:
    made = regime()
    made.run_tokens = 16
    assert not made.settled(SERIAL, 4, 10.0), "others are still in the runs they asked for"
    assert made.settled(SERIAL, 4, 20.0)
    assert not made.settled(AHEAD, 4, 20.0)
    assert made.settled(AHEAD, 1, 0.0), "one answer is all answers"


def test_a_new_way_has_time_to_show_itself_but_not_to_go_on_losing() -> None:
    made = regime()
    assert not made.due(3.0)
    assert made.due(5.0)
    made.review(4, (AHEAD, 2), GAIN, 5.0)
    assert made.way(4) == (SERIAL, 2)
    made.review(4, (SERIAL, 5), GAIN, 5.0)
    assert made.way(4) == (SERIAL, 5), "another length is no other way"
    made.review(4, (PLAIN, 0), GAIN, 6.0)
    assert made.way(4) == (PLAIN, 0)


def test_a_look_at_the_target_alone_is_measured_and_ends() -> None:
    made = regime()
    made.look(8.0, 100.0)
    assert made.looking(107.0)
    assert not made.settled(PLAIN, 4, 102.0)
    assert made.settled(PLAIN, 4, 105.0)
    assert not made.looking(108.0)
    assert not made.settled(SERIAL, 4, 109.0)
    assert made.settled(SERIAL, 4, 113.0)


def test_what_failed_waits_longer_each_time_and_holds_up_nothing_else() -> None:
    made, waits = Regimes(), []
    for start in (0.0, 1000.0, 3000.0):
        made.review(4, (AHEAD, 2), GAIN, start)
        made.review(4, (PLAIN, 0), GAIN, start + 10)
        now = start + 20
        while made.way(4) != (AHEAD, 2):
            now += 2
            made.review(4, (AHEAD, 2), GAIN, now)
        waits.append(now - start - 10)
        made.review(4, (PLAIN, 0), GAIN, now + 10)
    assert 60 <= waits[0] < waits[1] < waits[2]
    made.review(4, (SERIAL, 2), GAIN, now + 40)
    assert made.way(4) == (SERIAL, 2)


def test_a_way_that_lasted_is_tried_again_soon() -> None:
    made = regime()
    made.review(4, (PLAIN, 0), GAIN, 500.0)
    made.review(4, (SERIAL, 2), GAIN, 540.0)
    assert made.way(4) == (PLAIN, 0)
    made.review(4, (SERIAL, 2), GAIN, 566.0)
    assert made.way(4) == (SERIAL, 2)


def test_what_is_sure_to_gain_much_does_not_wait_for_long() -> None:
    """A way may fail for a reason that has gone, such as a load that was only passing by."""
    made = regime()
    made.review(4, (PLAIN, 0), GAIN, 10.0)
    made.review(4, (SERIAL, 2), 1.4, 15.0)
    assert made.way(4) == (PLAIN, 0), "it has just changed"
    made.review(4, (SERIAL, 2), GAIN, 30.0)
    assert made.way(4) == (PLAIN, 0)
    made.review(4, (SERIAL, 2), 1.4, 30.0)
    assert made.way(4) == (SERIAL, 2)
