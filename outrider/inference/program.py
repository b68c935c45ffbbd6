"""What a round does with the logits of its rows: the seam between the engine and its two users.

The engine knows how to run tokens of a session and hand back logits; the draft's drafter and the target's
verifier say which logits they want and what follows from them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from outrider.inference.packed import PackedPass


@dataclass(frozen=True, slots=True)
class More:
    """Run these tokens next, and give the logits of the last one. ``result``, unless None, is told at once."""

    tokens: tuple[int, ...]
    result: Any = None


@dataclass(frozen=True, slots=True)
class Done:
    """The round is over. ``keep`` is the session's length whose cache stays valid."""

    result: Any
    keep: int


@dataclass(frozen=True, slots=True)
class Sprout:
    """A branch to try: the session's first ``length`` tokens, then ``token``, then what ``program`` makes of them."""

    length: int
    token: int
    program: "Resumable"


@dataclass(frozen=True, slots=True)
class Fork:
    """The round goes on in branches side by side, the first ones where not all find room; ``keep`` as in ``Done``.

    Its result is a pair (sprout, the branch's result) for each branch that came to its end.
    """

    keep: int
    branches: tuple[Sprout, ...]


class Program(Protocol):
    """One round's logic, called on the engine's thread."""

    @property
    def tail(self) -> Sequence[int]:
        """Tokens to run after the claimed ones: the draft tokens of a block to verify."""

    @property
    def growth(self) -> int:
        """Most tokens that later steps may add."""

    def advance(self, logits: torch.Tensor, context: Sequence[int]) -> More | Done | Fork:
        """logits fp32 [n, V] of the wanted rows: the last claimed token and the tail, or the last added one.

        ``context`` holds the session's tokens so far, the tail included. Raises NonFiniteLogits.
        """


class Chooser(Protocol):
    """What chose tokens that nobody has asked for yet."""

    @property
    def rule(self) -> Hashable:
        """What its choices depend on besides the tokens before them."""

    @property
    def chosen(self) -> Sequence[int]:
        """Its choices so far, in order."""


@runtime_checkable
class Resumable(Program, Chooser, Protocol):
    """A program that can go on from what another one of its kind chose in a branch."""

    def resume(self, chosen: Sequence[int], length: int) -> Done | None:
        """Take over choices that follow the ``length`` claimed tokens. Done when no logits are needed any more."""


class Runner(Protocol):
    """What the engine needs of a model."""

    block_size: int
    num_blocks: int
    max_positions: int
    row_multiple: int

    def forward(self, plan: PackedPass) -> torch.Tensor:
        """fp32 logits [W, V] of the wanted rows."""

    def copy_blocks(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy cache blocks (from, to)."""
