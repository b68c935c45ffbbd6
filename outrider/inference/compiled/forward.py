"""Runs compiled passes: scratch memory, a team of threads, and the logits of the wanted rows.

It owns nothing of the cache: the keys and values are views that the caller passes in. One thread calls it.
"""

import threading
from typing import Any

import numpy as np
import torch

from outrider.inference.compiled import kernels
from outrider.inference.compiled.team import COUNTER_STEP, NEXT_ITEM
from outrider.inference.compiled.vectors import LANES
from outrider.inference.compiled.weights import PackedModel
from outrider.inference.packed import PackedPass

_ROWS_AT_FIRST = 64


class Team:
    """Threads that run a function together with the caller; idle members wait without using a core."""

    def __init__(self, members: int) -> None:
        self.members = members
        self._work: Any = None
        self._failure: Exception | None = None
        self._starts = [threading.Semaphore(0) for _ in range(members - 1)]
        self._ends = threading.Semaphore(0)
        for index, start in enumerate(self._starts):
            threading.Thread(target=self._serve, args=(index + 1, start), name="pass", daemon=True).start()

    def _serve(self, member: int, start: threading.Semaphore) -> None:
        while True:
            start.acquire()
            if self._work is None:
                return
            self._attempt(member)
            self._ends.release()

    def _attempt(self, member: int) -> None:
        """A member that fails says so to the caller of ``run``; its thread lives on."""
        try:
            self._work(member)
        except Exception as error:
            self._failure = error

    def run(self, work: Any) -> None:
        """Call ``work(member)`` in every member and return when all have ended. Raises what one of them raised."""
        self._work, self._failure = work, None
        for start in self._starts:
            start.release()
        self._attempt(0)
        for _ in self._starts:
            self._ends.acquire()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Let the threads end."""
        self._work = None
        for start in self._starts:
            start.release()


class CompiledForward:
    """One packed model with its scratch memory."""

    def __init__(self, model: PackedModel, keys: torch.Tensor, values: torch.Tensor, members: int) -> None:
        """keys [L, N, V, D, B] and values [L, N, V, B, D] are bfloat16 and stay the caller's; their blocks are
        read and written in the layout of ``attention``."""
        self._model = model
        size, block = model.head_dim, keys.shape[-1]
        layouts = ((block // LANES, size // 2), (size // LANES, block // 2))
        self._caches = tuple(
            cache.view(torch.uint16).numpy().reshape(*cache.shape[:3], *layout, LANES, 2)
            for cache, layout in zip((keys, values), layouts, strict=True)
        )
        self._team = Team(members)
        self._counters = np.zeros(NEXT_ITEM + model.layers * COUNTER_STEP, np.int64)
        self._grow(_ROWS_AT_FIRST)

    def _grow(self, rows: int) -> None:
        m = self._model
        self._rows = rows
        self._scratch = (
            np.zeros((rows, m.hidden), np.uint16),
            np.zeros((rows, m.hidden), np.uint16),
            np.zeros((rows, m.heads + 2 * m.kv_heads, m.head_dim), np.uint16),
            np.zeros((rows, m.heads, m.head_dim), np.uint16),
            np.zeros((rows, m.inner), np.uint16),
        )
        self._logits = np.zeros((rows, m.vocabulary), np.float32)

    def __call__(self, plan: PackedPass) -> torch.Tensor:
        """Run one pass. Returns fp32 logits [W, E]; they are valid until the next pass."""
        if max(plan.rows, len(plan.wanted)) > self._rows:
            self._grow(max(plan.rows, len(plan.wanted)))
        logits = self._logits[: len(plan.wanted)]
        arrays = (plan.tokens, plan.positions, plan.segments, plan.tables, plan.blocks, plan.offsets, plan.wanted)
        m, members = self._model, self._team.members
        scale, epsilon = np.float32(m.scale), np.float32(m.epsilon)
        self._counters[:] = 0

        def work(member: int) -> None:
            kernels.run_pass(
                member, members, self._counters, arrays, m.arrays, self._caches, self._scratch, logits, scale, epsilon,
                m.window,
            )  # fmt: skip

        self._team.run(work)
        return torch.from_numpy(logits)

    def close(self) -> None:
        """End the threads."""
        self._team.close()
