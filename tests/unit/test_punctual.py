"""Who waits for a moment never goes on before it, and soon goes on at it, however late sleeps end."""

from hypothesis import given
from hypothesis import strategies as st

from outrider.inference.punctual import Punctual

AWAKE_S = 1e-5
PASS_S = 0.02


class Machine:
    """A clock, and sleeps that end late."""

    def __init__(self) -> None:
        self.now = 0.0
        self.late_s = 0.0
        self.awake_s = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.late_s if seconds else AWAKE_S
        self.awake_s += 0.0 if seconds else AWAKE_S

    def error_s(self, punctual: Punctual, seconds: float = PASS_S) -> float:
        """Seconds that a wait takes too long."""
        moment = self.now + seconds
        punctual.wait(moment)
        return self.now - moment


def on(machine: Machine) -> Punctual:
    return Punctual(lambda: machine.now, machine.sleep)


@given(st.lists(st.tuples(st.floats(0, 0.03), st.floats(0, 0.1)), max_size=30))
def test_it_never_goes_on_early(waits: list[tuple[float, float]]) -> None:
    machine = Machine()
    punctual = on(machine)
    for seconds, machine.late_s in waits:
        assert machine.error_s(punctual, seconds) >= -1e-9


@given(st.floats(0, 0.0015))
def test_sleeps_that_always_end_late_end_in_time_once_that_is_known(late_s: float) -> None:
    machine = Machine()
    punctual = on(machine)
    machine.late_s = late_s
    errors = [machine.error_s(punctual) for _ in range(100)]
    assert errors[-1] <= 2 * AWAKE_S


def test_an_accident_costs_little_waking() -> None:
    machine = Machine()
    punctual = on(machine)
    machine.late_s = 10.0
    machine.error_s(punctual)
    machine.late_s = 0.0
    machine.error_s(punctual)
    assert machine.awake_s <= 0.0003


def test_a_moment_that_has_passed_is_not_waited_for() -> None:
    machine = Machine()
    assert machine.error_s(on(machine), -1.0) == 1.0
    assert machine.now == 0.0
