"""What acceptance rules make of a target's and a draft's distribution at a context, and averages over contexts.

TV is the total variation distance of the processed distributions. It knows logits; it runs no model.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.choice import PROCESSORS
from outrider.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class Context:
    """Chances that a draft token is accepted: at most, by the rule's guarantee, by the rule, and as measured."""

    optimum: float
    guarantee: float
    expected: float
    measured: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over contexts; ``error`` is the standard error of measured against expected."""

    contexts: int
    optimum: float
    guarantee: float
    expected: float
    measured: float
    error: float


def processed(logits: torch.Tensor, context: Sequence[int], params: SamplingParams) -> torch.Tensor:
    """Probabilities float64 [V] of the tokens that the choice rule draws from; ``params`` above temperature 0."""
    for process in PROCESSORS:
        logits = process(logits, context, params)
    return logits.double().softmax(0)


def total_variation(one: torch.Tensor, other: torch.Tensor) -> float:
    """Half the sum of differences; 0 for equal distributions, 1 for disjoint ones."""
    return float((one - other).abs().sum() / 2)


def shared_noise(target: torch.Tensor, draft: torch.Tensor) -> float:
    """Chance that both choose the same token under shared Gumbel noise.

    Exponential clocks of rates t_i and d_i ring together at i first with the chance
    1 / sum_j max(t_j / t_i, d_j / d_i). Sorted by the ratio d / t, the terms of the sum with a larger ratio than i's
    are d_j / d_i and the others t_j / t_i. Both [V], float64.
    """
    both = (target > 0) & (draft > 0)
    order = (draft[both] / target[both]).sort().indices
    t, d = target[both][order], draft[both][order]
    only_target, only_draft = target[draft == 0].sum(), draft[target == 0].sum()
    t_until = t.cumsum(0) + only_target
    d_after = d.sum() - d.cumsum(0) + only_draft
    return float((1 / (t_until / t + d_after / d)).sum())


def summarised(
    target: torch.Tensor, draft: torch.Tensor, context: Sequence[int], params: SamplingParams, measured: float
) -> Context:
    """One context, from the logits fp32 [V] of both models and the measured share of equal choices."""
    target_probs, draft_probs = (processed(logits, context, params) for logits in (target, draft))
    optimum = 1 - total_variation(target_probs, draft_probs)
    return Context(optimum, optimum / (2 - optimum), shared_noise(target_probs, draft_probs), measured)


def summed(contexts: Sequence[Context]) -> Summary:
    """Averages; at least two contexts."""
    apart = [one.measured - one.expected for one in contexts]
    return Summary(
        len(contexts),
        statistics.mean(one.optimum for one in contexts),
        statistics.mean(one.guarantee for one in contexts),
        statistics.mean(one.expected for one in contexts),
        statistics.mean(one.measured for one in contexts),
        statistics.stdev(apart) / math.sqrt(len(contexts)),
    )
