"""The numbers of a layout as tensors on a device, and what follows from them for all layers: who sees which key."""

import math
from dataclasses import dataclass, field

import torch

from outrider.inference.accelerator.layout import GridShape, PassShape
from outrider.inference.kv_store import BLOCK_SIZE


@dataclass(slots=True)
class Grid:
    """rows, positions [S, R] and tables [S, n] of a grid; masks are made when the first layer asks."""

    shape: GridShape
    rows: torch.Tensor
    positions: torch.Tensor
    tables: torch.Tensor
    _visible: dict[int, torch.Tensor] = field(default_factory=dict)
    _bias: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)

    @property
    def keys(self) -> int:
        """Keys per session."""
        return self.shape.end or self.shape.blocks * BLOCK_SIZE

    def visible(self, window: int) -> torch.Tensor:
        """[S, R, L] whether a row sees a key: itself and those before it, in a window (0: all) that many."""
        if window not in self._visible:
            distance = self.positions[:, :, None] - torch.arange(self.keys, device=self.positions.device)
            seen = distance >= 0
            self._visible[window] = seen & (distance < window) if window > 0 else seen
        return self._visible[window]

    def bias(self, window: int, group: int, dtype: torch.dtype) -> torch.Tensor:
        """[S, 1, R * group, L]: 0 where a row sees a key, else minus infinity; each row ``group`` times."""
        if (window, group) not in self._bias:
            seen = self.visible(window)
            bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))
            self._bias[window, group] = bias.repeat_interleave(group, 1)[:, None]
        return self._bias[window, group]


@dataclass(frozen=True, slots=True)
class DevicePass:
    """tokens, positions, slots, place [T]; fresh [F]; wanted [W]; grids. ``place`` says where the results of all grids
    side by side hold those of each row."""

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    place: torch.Tensor
    fresh: torch.Tensor
    wanted: torch.Tensor
    grids: tuple[Grid, ...]

    @classmethod
    def over(cls, flat: torch.Tensor, shape: PassShape) -> "DevicePass":
        """Views of the numbers of a layout of this shape."""
        sizes = list(shape.parts())
        parts = torch.split(flat, [math.prod(size) for size in sizes])
        tokens, positions, slots, place, fresh, wanted, *rest = (
            part.view(size) for part, size in zip(parts, sizes, strict=True)
        )
        grids = tuple(map(Grid, shape.grids, rest[::3], rest[1::3], rest[2::3]))
        return cls(tokens, positions, slots, place, fresh, wanted, grids)
