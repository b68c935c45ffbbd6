"""Pearson's test against an exact distribution."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from scipy import stats

LEAST_EXPECTED = 5.0

Cell = TypeVar("Cell", bound=Hashable)


def chi_square_p(observed: Mapping[Cell, int], probabilities: Mapping[Cell, float]) -> float:
    """p-value of Pearson's test. Cells with few expected counts are merged; an impossible observation gives 0."""
    total = sum(observed.values())
    if any(probabilities.get(cell, 0.0) == 0.0 for cell, count in observed.items() if count):
        return 0.0
    rare_seen, rare_expected, seen, expected = 0, 0.0, [], []
    for cell, probability in probabilities.items():
        if probability * total < LEAST_EXPECTED:
            rare_seen, rare_expected = rare_seen + observed.get(cell, 0), rare_expected + probability * total
        else:
            seen.append(observed.get(cell, 0))
            expected.append(probability * total)
    if rare_expected >= LEAST_EXPECTED:
        seen.append(rare_seen)
        expected.append(rare_expected)
    statistic = sum((s - e) ** 2 / e for s, e in zip(seen, expected, strict=True))
    return float(stats.chi2.sf(statistic, len(seen) - 1))
