"""The door by which a transformers model calls an attention function of ours, and the tokens that its head lacks."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface

NOWHERE = float("-inf")
"""Logit of a token that the head is cut from."""
_names = itertools.count()


class Hook:
    """The attention function of one model, which transformers calls by name."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._name = f"outrider_{next(_names)}"

    def install(self, function: Any) -> None:
        """Let the model call ``function`` as its attention."""
        AttentionInterface.register(self._name, function)
        self._model.set_attn_implementation(self._name)


def complement(ids: Sequence[int] | None, size: int) -> torch.Tensor | None:
    """Tokens that are not in ``ids``; None when ``ids`` is."""
    if ids is None:
        return None
    return torch.from_numpy(np.setdiff1d(np.arange(size), np.asarray(ids)))
