"""Every field of the sampling parameters has a range, and the error names the field."""

import math
from typing import Any

import pytest

from outrider.errors import InvalidArgument
from outrider.sampling import MAX_SEED, MAX_TOP_K, SamplingParams
from outrider.v1 import common_pb2
from outrider.wire import sampling_from_pb

NAN, INF = math.nan, math.inf

BAD = [
    *(("temperature", value) for value in (-0.1, -1e-9, 9e-6, 100.1, NAN, INF, -INF)),
    *(("top_k", value) for value in (-1, MAX_TOP_K + 1)),
    *(("top_p", value) for value in (0.0, -0.5, 1.0001, NAN, INF)),
    *(("min_p", value) for value in (-0.01, 1.01, NAN, INF)),
    *(("seed", value) for value in (-1, MAX_SEED + 1)),
]

GOOD = [
    *(("temperature", value) for value in (0.0, -0.0, 1e-5, 1.0, 100.0)),
    *(("top_k", value) for value in (0, 1, MAX_TOP_K)),
    *(("top_p", value) for value in (1e-9, 0.5, 1.0)),
    *(("min_p", value) for value in (0.0, 0.5, 1.0)),
    *(("seed", value) for value in (0, MAX_SEED)),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        SamplingParams(**{field: value})
    assert caught.value.field == f"sampling.{field}"
    assert caught.value.message.startswith(f"sampling.{field}: must be ")


@pytest.mark.parametrize(("field", "value"), GOOD)
def test_both_ends_of_a_range_are_allowed(field: str, value: Any) -> None:
    assert getattr(SamplingParams(**{field: value}), field) == value


@pytest.mark.parametrize("temperature", [0.00001, 100.0])
def test_the_documented_ends_of_the_temperature_survive_the_wires_single_precision(temperature: float) -> None:
    """0.00001 becomes 9.9999997e-06 in a protobuf float; the range that the proto documents must include it."""
    assert sampling_from_pb(common_pb2.SamplingParams(temperature=temperature)).temperature > 0


def test_the_defaults_are_greedy_and_keep_every_token() -> None:
    params = SamplingParams()
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.0, 0, 1.0, 0.0)
