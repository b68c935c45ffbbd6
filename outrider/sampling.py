"""Sampling parameters as a value. It knows their ranges, not how they are applied (``choice.py``)."""

import math
from dataclasses import dataclass

from outrider.errors import InvalidArgument

MAX_SEED = 2**64 - 1
MIN_TEMPERATURE = 9.999999747378752e-06  # 0.00001 as the wire's single precision holds it
MAX_TEMPERATURE = 100.0
MAX_TOP_K = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How a token is chosen. Temperature 0 is greedy; the other fields' neutral values keep every token.

    Raises InvalidArgument, naming the field, when a value is outside its range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        greedy = self.temperature == 0
        if not (greedy or MIN_TEMPERATURE <= self.temperature <= MAX_TEMPERATURE):
            allowed = f"0 (greedy) or {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}"
            raise InvalidArgument("sampling.temperature", f"must be {allowed}, got {self.temperature}")
        if not 0 <= self.top_k <= MAX_TOP_K:
            raise InvalidArgument("sampling.top_k", f"must be 0 (all) to {MAX_TOP_K}, got {self.top_k}")
        if math.isnan(self.top_p) or not 0 < self.top_p <= 1:
            raise InvalidArgument("sampling.top_p", f"must be above 0 and at most 1, got {self.top_p}")
        if math.isnan(self.min_p) or not 0 <= self.min_p <= 1:
            raise InvalidArgument("sampling.min_p", f"must be 0 to 1, got {self.min_p}")
        if not 0 <= self.seed <= MAX_SEED:
            raise InvalidArgument("sampling.seed", f"must be 0 to {MAX_SEED}, got {self.seed}")
