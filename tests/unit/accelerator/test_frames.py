"""Frames run over buffers that stay, are recorded after some passes, and go on when that fails."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from outrider.inference.accelerator import frames
from outrider.inference.accelerator.capture import Function, NoCapture, capture_for
from outrider.inference.accelerator.device_pass import DevicePass
from outrider.inference.accelerator.frames import Frames
from outrider.inference.accelerator.layout import GridShape, Layout, PassShape
from tests.unit.attention_cases import CPU

PAUSED = 1 + frames._SEEN + 2 * frames._APART
"""Passes after which two shapes that take turns are recorded."""


def layout(token: int, rows: int = 2, framed: bool = True) -> Layout:
    """A pass whose first token says what is computed."""
    shape = PassShape(rows, 1, rows, (GridShape(1, rows, 4),), framed)
    flat = np.zeros(shape.size, np.int64)
    flat[:rows] = token
    return Layout(shape, flat, np.arange(rows), np.arange(rows))


class Recorder:
    """A capture that counts what it was given and what is replayed; ``breaks`` makes it fail."""

    words = "recorder"

    def __init__(self, breaks: bool = False) -> None:
        self.breaks = breaks
        self.captured = 0
        self.replayed = 0

    def __call__(self, function: Function) -> Function:
        self.captured += 1
        if self.breaks:
            raise RuntimeError("operation not permitted when stream is capturing")

        def replay() -> None:
            self.replayed += 1
            function()

        return replay


def compute(addresses: list[int]) -> Callable[[DevicePass], torch.Tensor]:
    def logits(plan: DevicePass) -> torch.Tensor:
        addresses.append(plan.tokens.data_ptr())
        return plan.tokens[plan.wanted, None].float() * torch.tensor([1.0, 2.0, 3.0])

    return logits


def answer(made: Frames, given: Layout) -> list[float]:
    return made(given)[:, 1].tolist()


def test_a_frame_gives_the_same_before_and_after_it_is_recorded_on_the_same_buffer() -> None:
    addresses: list[int] = []
    recorder = Recorder()
    made = Frames(CPU, compute(addresses), recorder)
    for token in range(1, frames._SEEN + 4):
        assert answer(made, layout(token)) == [2.0 * token] * 2
    assert (recorder.captured, recorder.replayed, made.recorded) == (1, 3, 1)
    assert len(set(addresses)) == 1


def test_shapes_are_recorded_some_passes_apart() -> None:
    recorder = Recorder()
    made = Frames(CPU, compute([]), recorder)
    captured = []
    for _ in range(PAUSED):
        for rows in (1, 2):
            made(layout(7, rows))
            captured.append(recorder.captured)
    assert captured[-1] == made.recorded == 2
    first, second = captured.index(1), captured.index(2)
    assert second - first >= frames._APART


def test_a_shape_that_cannot_be_recorded_runs_on_and_no_other_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(breaks=True)
    made = Frames(CPU, compute([]), recorder)
    for _ in range(PAUSED):
        for rows in (1, 2):
            assert answer(made, layout(3, rows)) == [6.0] * rows
    assert recorder.captured == 1
    assert "could not be recorded" in caplog.text
    with pytest.raises(RuntimeError, match="capturing"):
        made.record(layout(3))


def test_no_more_than_so_many_shapes_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST", 1)
    recorder = Recorder()
    made = Frames(CPU, compute([]), recorder)
    for _ in range(PAUSED):
        made(layout(1, 1))
        made(layout(1, 2))
    assert recorder.captured == made.recorded == 1


def test_a_shape_can_be_recorded_at_once() -> None:
    recorder = Recorder()
    made = Frames(CPU, compute([]), recorder)
    made.record(layout(0))
    made.record(layout(0))
    assert answer(made, layout(4)) == [8.0, 8.0]
    assert (recorder.captured, recorder.replayed) == (1, 2)


def test_unframed_shapes_and_those_without_capture_are_computed_as_they_are() -> None:
    recorder = Recorder()
    for made, given in (
        (Frames(CPU, compute([]), recorder), layout(5, 2, False)),
        (Frames(CPU, compute([]), None), layout(5)),
    ):
        for _ in range(frames._SEEN + 2):
            assert answer(made, given) == [10.0, 10.0]
        made.record(given)
        assert made.recorded == 0
    assert recorder.captured == 0


def test_the_stand_in_is_the_function_itself() -> None:
    def function() -> None:
        """Nothing."""

    assert isinstance(capture_for(CPU), NoCapture)
    assert capture_for(CPU)(function) is function
