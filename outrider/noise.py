"""Counter-based random numbers from integer arithmetic: a function of (seed, position, token), no state.

The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): token i of a position takes the i-th value
of the stream that (seed, position) selects. Integers wrap modulo 2**64 on every device, so the uniforms have
the same bits on CPU and GPU and in every torch version; a golden-vector test pins them.
"""

import torch

from outrider.hashing import GOLDEN, MASK64, MIX_1, MIX_2, mix64

_UNIFORM_BITS = 52


def _signed(value: int) -> int:
    """The int64 with the bits of a uint64."""
    return value - (1 << 64) if value >> 63 else value


def stream_key(seed: int, position: int) -> int:
    """Start of the stream of one position."""
    return mix64(mix64(seed + GOLDEN) + (position + 1) * GOLDEN)


def _shift_right(bits: torch.Tensor, by: int) -> torch.Tensor:
    """Logical right shift of int64."""
    return (bits >> by).bitwise_and_((1 << (64 - by)) - 1)


def uniforms(seed: int, position: int, tokens: torch.Tensor) -> torch.Tensor:
    """Uniforms in (0, 1) for tokens (int64 [n]) at an absolute position; float64 [n], never 0 or 1."""
    bits = tokens * _signed(GOLDEN)
    bits += _signed((stream_key(seed, position) + GOLDEN) & MASK64)
    bits ^= _shift_right(bits, 30)
    bits *= _signed(MIX_1)
    bits ^= _shift_right(bits, 27)
    bits *= _signed(MIX_2)
    bits ^= _shift_right(bits, 31)
    return _shift_right(bits, 64 - _UNIFORM_BITS).to(torch.float64).add_(0.5).mul_(2.0**-_UNIFORM_BITS)


def gumbel(draws: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise from uniforms, by inversion; float64, the shape of ``draws``."""
    return -torch.log(-torch.log(draws))
