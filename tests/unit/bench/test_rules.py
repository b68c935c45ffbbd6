"""The chance of equal choices under shared noise: between the guarantee and the optimum, and what choices show."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.speculating.rules import Context, processed, shared_noise, summarised, summed, total_variation
from outrider.choice import choose
from outrider.sampling import SamplingParams

WEIGHTS = st.lists(st.floats(0, 1), min_size=5, max_size=5).filter(lambda values: sum(values) > 0.1)


def distribution(weights: list[float]) -> torch.Tensor:
    values = torch.tensor(weights, dtype=torch.float64)
    return values / values.sum()


@given(WEIGHTS, WEIGHTS)
def test_the_rule_lies_between_guarantee_and_optimum(target: list[float], draft: list[float]) -> None:
    one, other = distribution(target), distribution(draft)
    distance = total_variation(one, other)
    expected = shared_noise(one, other)
    assert (1 - distance) / (1 + distance) - 1e-9 <= expected <= 1 - distance + 1e-9
    assert expected == pytest.approx(shared_noise(other, one))


@given(WEIGHTS, WEIGHTS)
def test_it_is_the_sum_of_the_formula(target: list[float], draft: list[float]) -> None:
    t, d = distribution(target).tolist(), distribution(draft).tolist()
    terms = [
        1 / sum(max(t[j] / t[i], d[j] / d[i]) for j in range(len(t))) for i in range(len(t)) if t[i] > 0 and d[i] > 0
    ]
    assert shared_noise(distribution(target), distribution(draft)) == pytest.approx(sum(terms))


def test_equal_and_disjoint_distributions_are_the_ends() -> None:
    one = distribution([1, 2, 3, 0, 0])
    assert shared_noise(one, one) == pytest.approx(1)
    assert shared_noise(one, distribution([0, 0, 0, 1, 1])) == 0


def test_the_processed_distribution_is_that_of_the_rule() -> None:
    params = SamplingParams(temperature=0.5, top_k=2)
    assert processed(torch.tensor([0.0, 1.0, 2.0]), [], params).tolist() == pytest.approx(
        [0.0, 1 / (1 + math.exp(2)), 1 / (1 + math.exp(-2))]
    )


def test_choices_agree_as_often_as_expected() -> None:
    """4 000 fixed seeds; five standard deviations are passed by less than one of a million sets of seeds."""
    generator = torch.Generator().manual_seed(5)
    target, draft = (torch.randn(40, generator=generator) for _ in range(2))
    count = 4000
    chosen = [
        [choose(logits, [], SamplingParams(temperature=0.8, seed=seed), 3) for logits in (target, draft)]
        for seed in range(count)
    ]
    measured = sum(one == other for one, other in chosen) / count
    found = summarised(target, draft, [], SamplingParams(temperature=0.8), measured)
    assert abs(measured - found.expected) < 5 * math.sqrt(found.expected * (1 - found.expected) / count)
    assert found.guarantee < found.expected < found.optimum


def test_contexts_are_averaged_and_the_error_is_that_of_the_difference() -> None:
    found = summed([Context(0.8, 0.6, 0.7, 0.8), Context(0.4, 0.2, 0.3, 0.2)])
    assert found.contexts == 2
    values = [found.optimum, found.guarantee, found.expected, found.measured, found.error]
    assert values == pytest.approx([0.6, 0.4, 0.5, 0.5, 0.1])
