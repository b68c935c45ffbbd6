"""A runner without a model: logits are a function of the tokens that a row can see through its block table.

Whatever a wrong table, a missed copy or a stale block would change, changes the logits too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from outrider.inference.engine import Engine
from outrider.inference.job import Job, Outcome
from outrider.inference.packed import PADDING, PackedPass
from outrider.inference.program import Done, More, Program
from outrider.tokens import Claim, TokenLog

VOCAB = 31
Row = tuple[int, ...]


def next_token(prefix: Sequence[int]) -> int:
    """The scripted model's greedy choice: a hash of the whole prefix."""
    return TokenLog(prefix).digest(len(prefix)) % VOCAB


def continuation(prefix: Sequence[int], count: int) -> list[int]:
    """Greedy decoding of the scripted model."""
    tokens = list(prefix)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prefix) :]


class ScriptedRunner:
    """Implements ``program.Runner``. ``fail_next`` breaks the next pass, ``bad`` prefixes get NaN logits."""

    block_size = 4

    def __init__(self, num_blocks: int = 64, max_positions: int = 200, row_multiple: int = 2) -> None:
        self.num_blocks = num_blocks
        self.max_positions = max_positions
        self.row_multiple = row_multiple
        self.memory: list[list[int]] = [[-1] * self.block_size for _ in range(num_blocks)]
        self.passes: list[PackedPass] = []
        self.fail_next = False
        self.bad: set[Row] = set()

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        for source, target in copies:
            self.memory[target] = list(self.memory[source])

    def forward(self, plan: PackedPass) -> torch.Tensor:
        self.passes.append(plan)
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the accelerator is on fire")
        for token, block, offset in zip(plan.tokens, plan.blocks, plan.offsets, strict=True):
            if block != PADDING:
                self.memory[block][offset] = int(token)
        return torch.stack([self._logits(plan, int(row)) for row in plan.wanted] or [torch.zeros(VOCAB)])

    def _logits(self, plan: PackedPass, row: int) -> torch.Tensor:
        prefix = self._visible(plan, row)
        logits = torch.zeros(VOCAB)
        logits[next_token(prefix)] = 9.0
        return logits + float("nan") if prefix in self.bad else logits

    def _visible(self, plan: PackedPass, row: int) -> Row:
        """Tokens up to a row, read from the blocks of its session."""
        for segment, table in zip(plan.segments.tolist(), plan.tables.tolist(), strict=True):
            first, rows, start = segment
            if first <= row < first + rows:
                end = start + row - first + 1
                return tuple(self.memory[table[i // self.block_size]][i % self.block_size] for i in range(end))
        raise AssertionError(f"row {row} belongs to no session")


@dataclass
class Steps:
    """A program: run the tail, then decode ``growth`` more tokens; its result is every greedy choice in order."""

    tail: Sequence[int] = ()
    growth: int = 0
    keep: int | None = None
    result: list[int] = field(default_factory=list)
    calls: int = 0

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done:
        self.calls += 1
        if not bool(torch.isfinite(logits).all()):
            raise ValueError("not finite")
        self.result.extend(int(row.argmax()) for row in logits)
        if self.calls > self.growth:
            return Done(list(self.result), len(context) if self.keep is None else self.keep)
        return More((self.result[-1],))


def claim_of(tokens: Sequence[int], prefix_len: int = 0) -> Claim:
    """A claim that ``prefix_len`` of these tokens are cached."""
    return Claim(prefix_len, TokenLog(tokens).digest(prefix_len), tuple(tokens[prefix_len:]))


@dataclass
class Inbox:
    """What was delivered for a job; exactly one thing, once."""

    delivered: list[Outcome | Exception] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        (only,) = self.delivered
        assert isinstance(only, Outcome), only
        return only

    @property
    def error(self) -> Exception:
        (only,) = self.delivered
        assert isinstance(only, Exception), only
        return only


def submit(
    engine: Engine, session_id: str, claim: Claim, program: Program | None = None, **fields: Any
) -> tuple[Job, Inbox]:
    """Queue a round, by default one greedy choice."""
    inbox = Inbox()
    job = Job(session_id, claim, program or Steps(), inbox.delivered.append, **fields)
    engine.submit(job)
    return job, inbox


def drain(engine: Engine, most: int = 500) -> None:
    """Step until nothing waits or runs, with blocks and lengths checked after every step."""
    for _ in range(most):
        if engine.idle:
            return
        engine.step()
        engine.sessions.check_integrity()
    raise AssertionError("the engine never becomes idle")
