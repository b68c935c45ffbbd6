"""How often the draft is right, against what is possible: the real pair on real prompts, at temperature 0.8.

At every position of the target's own answers both models give their processed distributions. With TV their total
variation distance, rejection sampling accepts with 1 - TV, the most that any rule can; the shared noise of the choice
rule accepts with at least (1 - TV) / (1 + TV) (Daliri et al., arXiv 2408.07978). The same contexts, each with several
seeds, show what it accepts. Deterministic; it knows nothing of services.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from bench.report import publish, table
from bench.speculating.rules import Context, Summary, summarised, summed
from bench.traffic import CLASSES, COPYING, TrafficClass, prompt_ids
from outrider.choice import choose
from outrider.cli.models import chosen_pair
from outrider.inference.threads import available_threads
from outrider.sampling import SamplingParams
from outrider.tokenizer import Tokenizer

_TEMPERATURE = 0.8
_TOKENS = 64
_SEEDS = 16
_PROMPTS = 3


def _params(seed: int) -> SamplingParams:
    return SamplingParams(temperature=_TEMPERATURE, seed=seed)


@torch.inference_mode()
def _answer(model: Any, ids: Sequence[int], vocab_size: int) -> list[int]:
    """The prompt and the target's own answer to it, by the choice rule."""
    tokens, cache, new = list(ids), None, torch.tensor([list(ids)])
    for _ in range(_TOKENS):
        out = model(new, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        tokens.append(choose(out.logits[0, -1, :vocab_size].float(), tokens, _params(len(ids)), len(tokens)))
        new = torch.tensor([[tokens[-1]]])
    return tokens


@torch.inference_mode()
def _logits(model: Any, tokens: Sequence[int], start: int, vocab_size: int) -> torch.Tensor:
    """fp32 [n, V]: what the model says at each position from ``start`` on."""
    logits: torch.Tensor = model(torch.tensor([list(tokens[:-1])])).logits[0, start - 1 :, :vocab_size].float()
    return logits


def _contexts(pair: Sequence[Any], ids: Sequence[int], vocab_size: int) -> Iterator[Context]:
    """Every position of an answer."""
    tokens = _answer(pair[0], ids, vocab_size)
    both = [_logits(model, tokens, len(ids), vocab_size) for model in pair]
    for index, (target, draft) in enumerate(zip(*both, strict=True)):
        position = len(ids) + index
        before = tokens[:position]
        chosen = ([choose(one, before, _params(seed), position) for one in (target, draft)] for seed in range(_SEEDS))
        equal = sum(ours == theirs for ours, theirs in chosen)
        yield summarised(target, draft, before, _params(0), equal / _SEEDS)


def _measure(pair: Sequence[Any], tokenizer: Tokenizer, traffic: TrafficClass) -> list[Context]:
    prompts = [prompt_ids(tokenizer, traffic, number, number) for number in range(_PROMPTS)]
    return [context for ids in prompts for context in _contexts(pair, ids, tokenizer.vocab_size)]


def _row(name: str, found: Summary) -> list[str]:
    values = (found.guarantee, found.expected, found.measured, found.optimum)
    cells = [f"{value:.3f}" for value in values]
    cells[2] += f" ± {found.error:.3f}"
    return [name, str(found.contexts), *cells, f"{found.measured / found.optimum:.2f}"]


def main() -> int:
    """Run the study; its exit code is 0 whatever the figures."""
    torch.set_num_threads(available_threads())
    target, draft = chosen_pair(None, None, os.environ)
    pair = [AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval() for folder in (target, draft)]
    tokenizer = Tokenizer.load(target)
    every: list[Context] = []
    rows = []
    for traffic in (*CLASSES, COPYING):
        contexts = _measure(pair, tokenizer, traffic)
        every += contexts
        rows.append(_row(traffic.name, summed(contexts)))
    found = summed(every)
    rows.append(_row("all", found))
    header = ["class", "contexts", "guarantee (1-TV)/(1+TV)", "expected of the rule", "measured", "optimum 1-TV"]
    result = {
        "acceptance_guarantee": round(found.guarantee, 4),
        "acceptance_expected": round(found.expected, 4),
        "acceptance_measured": round(found.measured, 4),
        "acceptance_error": round(found.error, 4),
        "acceptance_optimum": round(found.optimum, 4),
    }
    publish("acceptance", table([*header, "measured / optimum"], rows), result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
