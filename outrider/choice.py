"""The choice rule: which token follows, and how much of a block the target accepts.

``choose`` is an exact sample of the processed distribution by the Gumbel-max theorem: the argmax of
log-probability plus Gumbel noise keyed by (seed, position, token). Draft and target apply it with the same
noise, so they tend to agree; ``verify`` accepts the longest prefix of a block that equals the target's own
choices. The output therefore cannot depend on the draft (Daliri et al., arXiv 2408.07978). Temperature 0,
sampling and an empty block are this one path. It does not know models, caches or sessions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outrider.errors import NonFiniteLogits
from outrider.noise import Doubles, Draws, draws, gumbel
from outrider.sampling import SamplingParams

_NUCLEUS_GUESS = 1024
_ROUNDING = 1e-9
_DROPPED = float("-inf")

Longs = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]
"""Processed logits, on the host: a row costs less there than the launches of a dozen kernels."""

Context = Sequence[int]
"""Tokens before the one to choose, the block's own earlier tokens included."""

Processor = Callable[[torch.Tensor, Context, SamplingParams], torch.Tensor]
"""Takes and returns the fp32 logits [V] of one position; a dropped token has -inf."""


def _scale_by_temperature(logits: torch.Tensor, context: Context, params: SamplingParams) -> torch.Tensor:
    return logits / params.temperature


def _keep_min_p(logits: torch.Tensor, context: Context, params: SamplingParams) -> torch.Tensor:
    if params.min_p == 0:
        return logits
    floor = logits.max().double() + torch.tensor(params.min_p, dtype=torch.float64).log().to(logits.device)
    return logits.masked_fill(logits.double() < floor, _DROPPED)


def _keep_top_k(logits: torch.Tensor, context: Context, params: SamplingParams) -> torch.Tensor:
    if params.top_k == 0 or params.top_k >= logits.shape[0]:
        return logits
    least = torch.topk(logits, params.top_k).values[-1]
    return logits.masked_fill(logits < least, _DROPPED)


def _keep_top_p(logits: torch.Tensor, context: Context, params: SamplingParams) -> torch.Tensor:
    """Keep tokens down to the logit at which the sorted probabilities reach top_p; exact ties of it stay."""
    if params.top_p == 1:
        return logits
    weights = (logits.double() - logits.max().double()).exp()
    wanted = weights.sum() * params.top_p
    for count in (min(_NUCLEUS_GUESS, logits.shape[0]), logits.shape[0]):
        largest, order = torch.topk(weights, count)
        reached = largest.cumsum(0) >= wanted
        if bool(reached[-1]):
            least = logits[order[int(reached.to(torch.uint8).argmax())]]
            return logits.masked_fill(logits < least, _DROPPED)
    return logits  # rounding kept the whole sum below top_p: every token stays


PROCESSORS: tuple[Processor, ...] = (_scale_by_temperature, _keep_min_p, _keep_top_k, _keep_top_p)
"""In vLLM's order. Logit bias and penalties will come before the temperature."""


def _greedy(logits: torch.Tensor, position: int) -> int:
    """Argmax, lowest id on a tie. NaN counts as the largest, so one look at the winner finds every bad row."""
    values = logits.numpy(force=True)  # its argmax has the same rule, and costs a row less than torch's
    token = int(values.argmax())
    if not math.isfinite(values[token]):
        raise NonFiniteLogits(f"the model gave no finite logits at position {position}")
    return token


def _able(scores: Scores, drawn: Draws, bound: float) -> Longs:
    """Indices of all that could reach ``bound`` with the largest of the noise, and hardly any more."""
    least = scores.dtype.type(bound - float(gumbel(drawn.max(keepdims=True))[0]) - _ROUNDING)
    return np.flatnonzero(scores >= np.nextafter(least, scores.dtype.type(_DROPPED)))


def _perturbed_argmax(scores: Scores, drawn: Draws) -> int:
    """Index of the largest score + Gumbel noise, with the logarithms taken only where they can matter.

    The likeliest token is a lower bound for the winner, and no token gets more noise than the largest draw
    gives; whatever cannot reach the bound even so is left out. The answer is that of the full computation.
    """
    likeliest = int(scores.argmax())
    able = _able(scores, drawn, float(_perturbed(scores, drawn, np.array([likeliest]))[0]))
    return int(able[_perturbed(scores, drawn, able).argmax()])


def _perturbed(scores: Scores, drawn: Draws, places: Longs) -> Doubles:
    """Score + Gumbel noise at some places."""
    return scores[places].astype(np.float64) + gumbel(drawn[places])


def _processed(logits: torch.Tensor, context: Context, params: SamplingParams) -> tuple[Longs, Scores]:
    """The tokens that the processors leave, and their scores."""
    for process in PROCESSORS:
        logits = process(logits, context, params)
    scores: Scores = logits.numpy(force=True)
    kept = scores > _DROPPED
    if kept.all():  # no list of survivors, which costs more than all the rest
        return np.arange(len(scores)), scores
    survivors = np.flatnonzero(kept)
    return survivors, scores[survivors]


def choose(logits: torch.Tensor, context: Context, params: SamplingParams, position: int) -> int:
    """The token at an absolute position, from its fp32 logits [V]. Raises NonFiniteLogits."""
    best = _greedy(logits, position)
    if params.temperature == 0:
        return best
    survivors, scores = _processed(logits, context, params)
    return int(survivors[_perturbed_argmax(scores, draws(params.seed, position, survivors))])


def _largest(scores: Scores, count: int) -> Longs:
    """Indices of the ``count`` largest scores, largest first, the lowest index first of equal ones."""
    able = np.flatnonzero(scores >= _least_of(scores, count))
    return able[np.argsort(-scores[able], kind="stable")[:count]]


def _least_of(scores: Scores, count: int) -> float:
    """The smallest of the ``count`` largest."""
    count = min(count, len(scores))
    return float(np.partition(scores, -count)[-count])


def _perturbed_largest(scores: Scores, drawn: Draws, count: int) -> Longs:
    """Indices of the ``count`` largest scores + Gumbel noise, pruned as in ``_perturbed_argmax``."""
    likeliest = _largest(scores, count)  # any so many give a bound
    able = _able(scores, drawn, float(_perturbed(scores, drawn, likeliest).min()))
    return able[_largest(_perturbed(scores, drawn, able), count)]


def candidates(
    logits: torch.Tensor, context: Context, params: SamplingParams, position: int, count: int
) -> tuple[int, ...]:
    """The ``count`` (at least 1) tokens that are likeliest to be a peer's choice at a position, the likeliest first.

    A peer with similar logits uses the same noise, so they are the best by the perturbed scores; the first is the
    choice itself. Fewer when the rule drops all others. logits: fp32 [V]. Raises NonFiniteLogits.
    """
    _greedy(logits, position)
    if params.temperature == 0:
        greedy: Scores = logits.numpy(force=True)
        best = _largest(greedy, count)
        return tuple(best[greedy[best] > _DROPPED].tolist())
    survivors, scores = _processed(logits, context, params)
    return tuple(survivors[_perturbed_largest(scores, draws(params.seed, position, survivors), count)].tolist())


def log_probability(logits: torch.Tensor, token: int) -> float:
    """Natural logarithm of a token's probability under the raw logits [V]."""
    wide = logits.double()
    return float(wide[token] - wide.logsumexp(0))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a round: draft tokens accepted from the first, then the correction or the bonus."""

    num_accepted: int
    next_token: int
    logprobs: tuple[float, ...] = ()


def verify(
    logits: torch.Tensor,
    draft_tokens: Sequence[int],
    context: Sequence[int],
    params: SamplingParams,
    with_logprobs: bool = False,
) -> Verdict:
    """Compare a block with the target's own choices.

    logits: fp32 [k+1, V], row i for the position after ``context`` and i draft tokens. The position of a
    token is its index in the session. Raises NonFiniteLogits when a row that matters has no finite logits.
    """
    seen = list(context)
    logprobs: list[float] = []
    for accepted in range(len(draft_tokens) + 1):
        choice = choose(logits[accepted], seen, params, len(seen))
        if with_logprobs:
            logprobs.append(log_probability(logits[accepted], choice))
        if accepted == len(draft_tokens) or choice != draft_tokens[accepted]:
            break
        seen.append(choice)
    return Verdict(accepted, choice, tuple(logprobs))
