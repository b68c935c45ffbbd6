"""Sessions whose rows run through a kernel of the accelerator, some at a time, over a cache that begins as junk."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.inference.accelerator.cuts import GroupedLayouts, Layouts, TiledLayouts
from outrider.inference.accelerator.device_pass import DevicePass
from outrider.inference.accelerator.fast import FastKernel
from outrider.inference.accelerator.row_store import RowStore
from outrider.inference.accelerator.tiles import TileKernel
from outrider.inference.attention import Kernel
from outrider.inference.kv_store import BLOCK_SIZE, LayerShape
from outrider.inference.packed import Segment, pack
from tests.unit.attention_cases import CPU, Case, Rows, random_rows

WAYS = ("grouped", "framed", "tiled")
_BLOCKS_EACH = 24


@dataclass
class Session:
    """Rows of a session, how many have run, and where its keys go."""

    rows: Rows
    table: list[int]
    done: int = 0


class Sessions:
    """Several sessions of random rows on one layer, computed one way."""

    def __init__(self, way: str, case: Case, dtype: torch.dtype, lengths: Sequence[int]) -> None:
        layers = [LayerShape(case.kv_heads, case.size, case.window)]
        blocks = _BLOCKS_EACH * len(lengths)
        self.store = RowStore(layers, blocks, dtype, CPU)
        for rows in (*self.store.key_rows, *self.store.value_rows):
            rows[:blocks] = float("nan")  # what a failed pass of an earlier owner left; the spare block is nobody's
        self._scale = case.size**-0.5
        self._kernel: Kernel[DevicePass] = (TileKernel if way == "tiled" else FastKernel)(self.store, layers)
        spare = self.store.spare
        self._layouts: Layouts = TiledLayouts(spare) if way == "tiled" else GroupedLayouts(spare, way == "framed")
        order = torch.randperm(blocks, generator=torch.Generator().manual_seed(1)).tolist()
        self.sessions = [
            Session(random_rows(length, case, dtype, seed), order[seed::len(lengths)])
            for seed, length in enumerate(lengths)
        ]  # fmt: skip

    def run(self, counts: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
        """One pass: so many next rows of each of these sessions. Returns [R, H, D] for each."""
        segments, parts = [], []
        for index, count in counts:
            session = self.sessions[index]
            end = session.done + count
            segments.append(Segment([0] * count, session.done, session.table[: -(-end // BLOCK_SIZE)], count))
            parts.append([x[session.done : end] for x in session.rows])
            session.done = end
        q, k, v = (torch.cat(rows) for rows in zip(*parts, strict=True))
        outs, first = [], 0
        for layout in self._layouts(pack(segments, BLOCK_SIZE, 1)):
            plan = DevicePass.over(torch.from_numpy(layout.flat), layout.shape)
            self.store.clear(plan.fresh)
            tile_q, tile_k, tile_v = (_filled_up(x[first:], layout.shape.rows) for x in (q, k, v))
            outs.append(self._kernel(0, tile_q, tile_k, tile_v, plan, self._scale))
            first += layout.shape.rows
        return list(torch.split(torch.cat(outs)[: len(q)], [count for _, count in counts]))


def _filled_up(rows: torch.Tensor, count: int) -> torch.Tensor:
    """The first ``count`` rows; where there are fewer, with others behind them that nobody asked for."""
    return torch.cat([rows[:count], rows.new_ones(max(0, count - len(rows)), *rows.shape[1:])])
