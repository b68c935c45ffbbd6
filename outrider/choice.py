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

import torch

from outrider.errors import NonFiniteLogits
from outrider.noise import gumbel, uniforms
from outrider.sampling import SamplingParams

_NUCLEUS_GUESS = 1024
_ROUNDING = 1e-9
_DROPPED = float("-inf")

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


def _perturbed_argmax(scores: torch.Tensor, draws: torch.Tensor) -> int:
    """Index of the largest score + Gumbel noise, with the logarithms taken only where they can matter.

    The likeliest token is a lower bound for the winner, and no token gets more noise than the largest draw
    gives; whatever cannot reach the bound even so is left out. The answer is that of the full computation.
    """
    likeliest = int(scores.argmax())
    bound = scores[likeliest] + gumbel(draws[likeliest])
    able = (scores + gumbel(draws.max()) >= bound - _ROUNDING).nonzero().squeeze(1)
    return int(able[(scores[able] + gumbel(draws[able])).argmax()])


def choose(logits: torch.Tensor, context: Context, params: SamplingParams, position: int) -> int:
    """The token at an absolute position, from its fp32 logits [V]. Raises NonFiniteLogits."""
    best = _greedy(logits, position)
    if params.temperature == 0:
        return best
    for process in PROCESSORS:
        logits = process(logits, context, params)
    survivors = (logits > _DROPPED).nonzero().squeeze(1)
    return int(survivors[_perturbed_argmax(logits[survivors].double(), uniforms(params.seed, position, survivors))])


def _largest(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Indices of the ``count`` largest scores, largest first, the lowest index first of equal ones."""
    least = torch.topk(scores, min(count, scores.shape[0])).values[-1]
    able = (scores >= least).nonzero().squeeze(1)
    return able[torch.sort(scores[able], descending=True, stable=True).indices[:count]]


def _perturbed_largest(scores: torch.Tensor, draws: torch.Tensor, count: int) -> torch.Tensor:
    """Indices of the ``count`` largest scores + Gumbel noise, pruned as in ``_perturbed_argmax``."""
    likeliest = torch.topk(scores.float(), min(count, scores.shape[0])).indices  # any so many give a bound
    bound = (scores[likeliest] + gumbel(draws[likeliest])).min()
    able = (scores + gumbel(draws.max()) >= bound - _ROUNDING).nonzero().squeeze(1)
    return able[_largest(scores[able] + gumbel(draws[able]), count)]


def candidates(
    logits: torch.Tensor, context: Context, params: SamplingParams, position: int, count: int
) -> tuple[int, ...]:
    """The ``count`` (at least 1) tokens that are likeliest to be a peer's choice at a position, the likeliest first.

    A peer with similar logits uses the same noise, so they are the best by the perturbed scores; the first is the
    choice itself. Fewer when the rule drops all others. logits: fp32 [V]. Raises NonFiniteLogits.
    """
    _greedy(logits, position)
    if params.temperature == 0:
        best = _largest(logits, count)
        return tuple(best[logits[best] > _DROPPED].tolist())
    for process in PROCESSORS:
        logits = process(logits, context, params)
    survivors = (logits > _DROPPED).nonzero().squeeze(1)
    draws = uniforms(params.seed, position, survivors)
    return tuple(survivors[_perturbed_largest(logits[survivors].double(), draws, count)].tolist())


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
