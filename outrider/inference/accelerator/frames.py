"""Passes of shapes that come again, over buffers that stay: what a graph needs, and when one is recorded.

A frame computes eagerly until its shape has been seen a few times; then it is recorded once, on the thread that runs
the passes, and replayed from then on. Recordings keep a distance of some passes, so that no answer waits for several.
Before and after, the same operators run on the same buffers. It does not know what a pass computes.
"""

import logging
from collections.abc import Callable

import torch

from outrider.inference.accelerator.capture import Capture, Function
from outrider.inference.accelerator.cuts import FRAME_ROWS, TILE_ROWS
from outrider.inference.accelerator.device_pass import DevicePass
from outrider.inference.accelerator.layout import Layout, PassShape

log = logging.getLogger(__name__)
Compute = Callable[[DevicePass], torch.Tensor]
_SEEN = 3
"""Eager passes of a shape before it is recorded."""
_APART = 8
"""Passes between two recordings."""
_MOST = 64
"""Recorded shapes; further ones stay eager."""
_ROWS = max(FRAME_ROWS, TILE_ROWS)


class Frame:
    """The buffer of one shape that holds the numbers of a pass, and what runs over it."""

    def __init__(self, shape: PassShape, device: torch.device, run: Callable[[DevicePass], None]) -> None:
        self._shape = shape
        self._compute = run
        self._flat = torch.zeros(shape.size, dtype=torch.int64, device=device)
        self._replay: Function | None = None
        self.seen = 0

    def _run(self) -> None:
        self._compute(DevicePass.over(self._flat, self._shape))

    def record(self, capture: Capture) -> None:
        """From now on the frame replays. It must have run before. Raises RuntimeError when it cannot be recorded."""
        self._replay = capture(self._run)

    @property
    def recorded(self) -> bool:
        """Whether it replays."""
        return self._replay is not None

    def __call__(self, layout: Layout) -> None:
        """Run over the numbers of a layout."""
        self._flat.copy_(torch.from_numpy(layout.flat))
        self.seen += 1
        (self._replay or self._run)()


class Frames:
    """Computes layouts; those of framed shapes over frames, when there is a ``capture``."""

    def __init__(self, device: torch.device, compute: Compute, capture: Capture | None) -> None:
        self._device = device
        self._compute = compute
        self._capture = capture
        self._frames: dict[PassShape, Frame] = {}
        self._logits: torch.Tensor | None = None
        self._exhausted = False
        self._pause = 0

    @property
    def recorded(self) -> int:
        """Shapes that replay."""
        return sum(frame.recorded for frame in self._frames.values())

    def __call__(self, layout: Layout) -> torch.Tensor:
        """fp32 logits [W, V], valid until the next layout."""
        if self._capture is None or not layout.shape.framed:
            flat = torch.from_numpy(layout.flat).to(self._device)
            return self._compute(DevicePass.over(flat, layout.shape))
        frame = self._frame(layout.shape)
        self._pause -= 1
        if frame.seen >= _SEEN and not frame.recorded and self._pause <= 0 and not self._exhausted:
            self._try_to_record(frame)
        frame(layout)
        assert self._logits is not None
        return self._logits[: layout.shape.heads]

    def record(self, layout: Layout) -> None:
        """Run and record a layout's shape now, if it is one to be recorded. Raises RuntimeError when it cannot be."""
        if self._capture is None or not layout.shape.framed:
            return
        frame = self._frame(layout.shape)
        frame(layout)
        if not frame.recorded:
            frame.record(self._capture)

    def _frame(self, shape: PassShape) -> Frame:
        if shape not in self._frames:
            self._frames[shape] = Frame(shape, self._device, self._keep)
        return self._frames[shape]

    def _keep(self, plan: DevicePass) -> None:
        """Compute a pass into the buffer of logits that all frames share."""
        logits = self._compute(plan)
        if self._logits is None:
            self._logits = logits.new_zeros(_ROWS, logits.shape[1])
        self._logits[: len(logits)].copy_(logits)

    def _try_to_record(self, frame: Frame) -> None:
        """Record a frame; a failure ends recording for good, and frames go on eagerly."""
        assert self._capture is not None
        self._pause = _APART
        try:
            frame.record(self._capture)
        except RuntimeError:
            log.exception("a pass could not be recorded; no more are recorded, and passes go on without")
            self._exhausted = True
        self._exhausted |= self.recorded >= _MOST
