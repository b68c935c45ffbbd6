"""How long the engine waits for sessions that are away between two rounds."""

from outrider.inference.gather import Gather


def _after(return_s: float, pass_s: float) -> float:
    gather = Gather()
    for _ in range(100):
        gather.note_return(return_s)
        gather.note_pass(pass_s)
    return gather.patience


def test_a_fresh_engine_does_not_wait() -> None:
    """Nothing was measured, so nothing is waited for."""
    assert Gather().patience == 0.0


def test_waits_for_sessions_that_come_back_faster_than_a_pass() -> None:
    """Twice the average time of return, when that is less than a pass."""
    assert 0.003 < _after(return_s=0.002, pass_s=0.010) <= 0.004


def test_does_not_wait_for_sessions_that_fetch_a_draft_in_between() -> None:
    """Those who will not be back within a pass are not waited for."""
    assert _after(return_s=0.030, pass_s=0.010) == 0.0
