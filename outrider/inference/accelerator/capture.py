"""Recording a function so that it runs again without Python: CUDA graphs, and a stand-in for everywhere else.

A captured function reads and writes tensors that stay where they are, and nothing else changes between its runs.
"""

from collections.abc import Callable
from typing import Protocol

import torch

Function = Callable[[], None]


class Capture(Protocol):
    """Turns a function into one that does the same to the same tensors, sooner."""

    @property
    def words(self) -> str:
        """What it is, for the path's description."""

    def __call__(self, function: Function) -> Function:
        """What replays the function. Raises RuntimeError when it cannot be recorded."""


class NoCapture:
    """The function itself: everything around graphs runs, and they do not. For devices without graphs, and tests."""

    words = "frames without graphs"

    def __call__(self, function: Function) -> Function:
        """The function itself."""
        return function


class CudaGraphs:
    """CUDA graphs that share one pool of memory, since only one of them runs at a time."""

    words = "CUDA graphs"

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, function: Function) -> Function:
        """Runs the function once on a stream of its own, as libraries need it, and records it there."""
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            function()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            function()
        return graph.replay


def capture_for(device: torch.device) -> Capture:
    """Graphs where the device has them."""
    return CudaGraphs(device) if device.type == "cuda" else NoCapture()
