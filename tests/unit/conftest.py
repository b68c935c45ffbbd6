"""Property tests give the same examples every time, a slow machine is no failure, and torch keeps to one thread."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from tests.unit.clock import Clock

settings.register_profile("outrider", deadline=None, derandomize=True)
settings.load_profile("outrider")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time, as a test sets it."""
    return Clock(monkeypatch)


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors here are small: a second thread would only wait for a busy core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
